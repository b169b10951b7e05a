// Small parts of all views. Texts of a cluster are always text nodes.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { amount, number, percent, plural, share, STATES, visible } from "./format.js";

// A text of the cluster. It has a direction of its own, so that it does not turn what stands around it.
export const Text = ({ of }) => <bdi class="text">{visible(of)}</bdi>;

export const State = ({ of }) => <span class={`state ${of}`}>{STATES[of] ?? visible(of)}</span>;

export function Failure({ error }) {
  return error ? (
    <p class="failure" role="alert">
      <Text of={error.message} />
    </p>
  ) : null;
}

export const Loading = () => (
  <p class="loading" role="status">
    Loading…
  </p>
);

export function Panel({ title, children, wide, actions }) {
  const id = useId();
  return (
    <section class={wide ? "panel wide" : "panel"} aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

// A share as a bar. What exceeds the whole is red.
export function Meter({ requested, allocatable, label }) {
  const part = share(requested, allocatable);
  const width = `${Math.min(part, 1) * 100}%`;
  const level = part > 1 ? "over" : part > 0.9 ? "high" : "";
  return (
    <div class={`meter ${level}`} role="img" aria-label={`${label}: ${percent(part)}`}>
      <div class="fill" style={{ width }} />
    </div>
  );
}

export function Usage({ resources }) {
  if (!resources.length) return <p class="nothing">No node has any resources.</p>;
  return (
    <div class="scroll">
      <table class="usage">
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col" class="bar">
              Requested
            </th>
            <th scope="col" class="n">
              Share
            </th>
            <th scope="col" class="n">
              Free
            </th>
            <th scope="col" class="n">
              Allocatable
            </th>
          </tr>
        </thead>
        <tbody>
          {resources.map(({ name, allocatable, requested }) => (
            <tr key={name}>
              <th scope="row">
                <Text of={name} />
              </th>
              <td class="bar">
                <Meter requested={requested} allocatable={allocatable} label={visible(name)} />
              </td>
              <td class="n">{percent(share(requested, allocatable))}</td>
              <td class="n">{amount(name, allocatable - requested)}</td>
              <td class="n">{amount(name, allocatable)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Changes that would help a pod or a group, each with where it would go, or how many of its pods.
export function Remedies({ of }) {
  return (
    <ol class="remedies">
      {of.map(({ kind, text, node, alsoFits, placed, pods, placement, changes }) => (
        <li key={text}>
          <details>
            <summary>
              <span class={`chip ${kind}`}><Text of={kind} /></span> <Text of={text} />
              {node && (
                <span class="details">
                  {" "}
                  → <Text of={node} />
                  {alsoFits > 0 && ` and ${plural(alsoFits, "other node")}`}
                </span>
              )}
              {pods !== undefined && (
                <span class="details">
                  {" "}
                  → {number(placed)} of {plural(pods, "pod")}
                  {placement && <>, in <Text of={placement} /></>}
                </span>
              )}
            </summary>
            <pre class="json">{visible(JSON.stringify(changes, null, 2))}</pre>
          </details>
        </li>
      ))}
    </ol>
  );
}

// The size of an element, as it changes.
export function useSize(ref) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize((last) => (last.width === width && last.height === height ? last : { width, height }));
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return size;
}

export function useDark() {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(media.matches);
  useEffect(() => {
    const change = () => setDark(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return dark;
}

// A list of any length, of which only what is seen is in the document. `row` draws one; `href` is where Enter leads.
export function List({ count, height, row, href, label, head }) {
  const box = useRef(null);
  const id = useId();
  const { height: seen } = useSize(box);
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(0);
  const current = Math.min(active, count - 1);
  const first = Math.max(0, Math.floor(top / height) - 4);
  const last = Math.min(count, Math.ceil((top + seen) / height) + 4);
  const page = Math.max(1, Math.floor(seen / height) - 1);
  const go = (to) => {
    const next = Math.max(0, Math.min(count - 1, to));
    setActive(next);
    const { scrollTop, clientHeight } = box.current;
    if (next * height < scrollTop) box.current.scrollTop = next * height;
    else if ((next + 1) * height > scrollTop + clientHeight) box.current.scrollTop = (next + 1) * height - clientHeight;
  };
  const keys = {
    ArrowDown: () => go(current + 1),
    ArrowUp: () => go(current - 1),
    PageDown: () => go(current + page),
    PageUp: () => go(current - page),
    Home: () => go(0),
    End: () => go(count - 1),
    Enter: () => {
      const to = href(current);
      if (to) location.hash = to;
    },
  };
  const onKeyDown = (event) => {
    if (event.target !== box.current || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  // A row that leaves the window is used again for one that enters it.
  const pool = Math.ceil(seen / height) + 9;
  const rows = [];
  for (let at = first; at < last; at++) {
    const to = href(at);
    rows.push(
      <a
        key={at % pool}
        id={`${id}-${at}`}
        role="option"
        aria-selected={at === current}
        aria-setsize={count}
        aria-posinset={at + 1}
        class="row"
        tabIndex={-1}
        href={to ?? undefined}
        style={{ top: `${at * height}px`, height: `${height}px` }}
      >
        {row(at)}
      </a>,
    );
  }
  return (
    <div class="list">
      {head}
      <div
        class="rows"
        ref={box}
        tabIndex={0}
        role="listbox"
        aria-label={label}
        aria-activedescendant={count ? `${id}-${current}` : undefined}
        onKeyDown={onKeyDown}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div role="presentation" style={{ height: `${count * height}px` }} />
        {rows}
      </div>
    </div>
  );
}

// Names with values, such as labels.
export function Pairs({ of }) {
  const pairs = Object.entries(of);
  if (!pairs.length) return <p class="nothing">None.</p>;
  return (
    <dl class="pairs">
      {pairs.map(([key, value]) => (
        <div key={key}>
          <dt>
            <Text of={key} />
          </dt>
          <dd>
            <Text of={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

// The first of many things, and a button for the others.
export function Some({ of, first = 20, children }) {
  const [n, setN] = useState(first);
  return (
    <>
      {of.slice(0, n).map(children)}
      {n < of.length && (
        <li class="more">
          <button type="button" onClick={() => setN(n + 200)}>
            {of.length - n} more
          </button>
        </li>
      )}
    </>
  );
}
