import { useEffect, useRef, useState } from "preact/hooks";
import { ask, query } from "../api.js";
import { age, number, plural, podLink, STATES, visible } from "../format.js";
import { Failure, List, Loading, State, Text } from "../parts.jsx";

// The list is read in parts of this many pods.
const PART = 200;
// At most so many parts are kept.
const PARTS = 50;

// The pods of a question. Parts are read when they are first seen.
function usePods(filter, version) {
  const key = JSON.stringify(filter);
  const [shown, setShown] = useState({ key: null, head: null, error: null });
  const parts = useRef({ id: null, found: new Map(), asked: new Set() });
  const [, redraw] = useState(0);
  const id = `${key}@${version}`;
  const read = (part, control) => {
    const own = parts.current;
    own.asked.add(part);
    return ask(query("pods", { ...filter, from: part * PART, limit: PART }), control?.signal).then((answer) => {
      if (parts.current !== own) return;
      own.found.set(part, answer.pods);
      if (own.found.size > PARTS) {
        const [oldest] = own.found.keys();
        own.found.delete(oldest);
        own.asked.delete(oldest);
      }
      setShown({ key, head: answer, error: null });
      redraw((n) => n + 1);
    });
  };
  useEffect(() => {
    const control = new AbortController();
    // While another version is read, the last one of the same question stands.
    const last = parts.current;
    const keep = last.id?.startsWith(`${key}@`);
    const fresh = { id, found: keep ? new Map(last.found) : new Map(), asked: new Set() };
    parts.current = fresh;
    const first = keep && fresh.found.size ? [...fresh.found.keys()] : [0];
    const timer = setTimeout(
      () => {
        for (const part of first.slice(-3)) {
          read(part, control).catch((error) => error.name !== "AbortError" && setShown((old) => ({ ...old, key, error })));
        }
        if (keep) for (const part of first.slice(0, -3)) fresh.found.delete(part);
      },
      keep || last.id === null ? 0 : 150,
    );
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [id]);
  const pod = (at) => {
    const part = Math.floor(at / PART);
    const own = parts.current;
    if (!own.asked.has(part)) {
      own.asked.add(part);
      queueMicrotask(() => read(part).catch(() => own.asked.delete(part)));
    }
    return own.found.get(part)?.[at % PART];
  };
  return { head: shown.head, error: shown.error, pod, stale: shown.key !== key };
}

export function Pods({ parameters, version }) {
  const filter = {
    state: parameters.get("state") ?? "",
    namespace: parameters.get("namespace") ?? "",
    search: parameters.get("search") ?? "",
  };
  const { head, error, pod } = usePods(filter, version);
  const change = (changed) => {
    const next = Object.entries({ ...filter, ...changed }).filter(([, value]) => value);
    const text = new URLSearchParams(next).toString();
    history.replaceState(null, "", text ? `#/pods?${text}` : "#/pods");
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const states = new Set(filter.state.split(",").filter(Boolean));
  const toggle = (state) => {
    const next = new Set(states);
    if (!next.delete(state)) next.add(state);
    change({ state: [...next].join(",") });
  };
  return (
    <>
      <h1>{head ? plural(head.total, "pod") : "Pods"}</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <fieldset>
          <legend class="unseen">State</legend>
          {Object.entries(STATES).map(([state, title]) => (
            <button key={state} type="button" class={`toggle ${state}`} aria-pressed={states.has(state)} onClick={() => toggle(state)}>
              {title} <span class="count">{head ? number(head.states[state] ?? 0) : ""}</span>
            </button>
          ))}
        </fieldset>
        <label>
          Namespace
          <input type="search" value={filter.namespace} onChange={(event) => change({ namespace: event.currentTarget.value })} />
        </label>
        <label>
          Name
          <input type="search" value={filter.search} placeholder="part of a name" onInput={(event) => change({ search: event.currentTarget.value })} />
        </label>
      </form>
      <Failure error={error} />
      {!head && !error && <Loading />}
      {head && head.total === 0 && <p class="nothing">There is no such pod.</p>}
      {head && head.total > 0 && (
        <List
          count={head.total}
          height={52}
          label="Pods"
          href={(at) => {
            const found = pod(at);
            return found && podLink(found.pod);
          }}
          head={
            <div class="row head pods-row">
              <span>Pod</span>
              <span>State</span>
              <span class="wide-only">Node, or why it is pending</span>
              <span class="n wide-only">Priority</span>
              <span class="n wide-only">Age</span>
            </div>
          }
          row={(at) => {
            const found = pod(at);
            if (!found) return <span class="cells pods-row">…</span>;
            const why = found.message ?? (found.rejectedBy ?? []).join(", ");
            return (
              <span class="cells pods-row">
                <span class="cell name">
                  <Text of={found.pod} />
                </span>
                <span class="cell">
                  <State of={found.state} />
                </span>
                <span class="cell why" title={visible(why)}>
                  {found.node ? (
                    <Text of={found.node} />
                  ) : why ? (
                    <Text of={why} />
                  ) : found.fitsOn ? (
                    <>
                      would go to <Text of={found.fitsOn} />
                    </>
                  ) : (
                    ""
                  )}
                </span>
                <span class="cell n wide-only">{number(found.priority)}</span>
                <span class="cell n wide-only">{found.created ? age(found.created, head.asOf) : ""}</span>
              </span>
            );
          }}
        />
      )}
    </>
  );
}
