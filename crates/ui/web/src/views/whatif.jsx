import { useRef, useState } from "preact/hooks";
import { post } from "../api.js";
import { number, percent, plural, podLink } from "../format.js";
import { Failure, Panel, Some, Text } from "../parts.jsx";

// The actions, in the form of the command line.
const ACTIONS = [
  { key: "drain", title: "Drain a node", fields: ["node, or KEY=VALUE of its labels"] },
  { key: "lose", title: "Lose nodes", fields: ["node, or KEY=VALUE such as topology.kubernetes.io/zone=a"] },
  { key: "cordon", title: "Cordon nodes", fields: ["node, or KEY=VALUE"] },
  { key: "uncordon", title: "Uncordon nodes", fields: ["node, or KEY=VALUE"] },
  { key: "addNodes", title: "Add nodes", fields: ["number", "like this node"] },
  { key: "taint", title: "Taint nodes", fields: ["NODE=KEY:VALUE:EFFECT"] },
  { key: "scale", title: "Scale a controller", fields: ["NAMESPACE/NAME=REPLICAS"] },
  { key: "priority", title: "Change a priority", fields: ["NAMESPACE/NAME=PRIORITY"] },
  { key: "delete", title: "Delete an object", fields: ["KIND/NAMESPACE/NAME"] },
  { key: "deletePods", title: "Delete pods", fields: ["NAMESPACE/KEY=VALUE"] },
  { key: "apply", title: "Apply manifests", fields: [] },
];

const EMPTY = '{\n  "actions": []\n}';
const POD = JSON.stringify(
  {
    pods: [
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "one-more" },
        spec: { containers: [{ name: "main", resources: { requests: { cpu: "1", memory: "1Gi" } } }] },
      },
    ],
  },
  null,
  2,
);

// What was written is kept while the page is open.
let draft = EMPTY;
let capacityDraft = POD;

function Editor({ label, value, onValue, onRun, busy }) {
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onRun();
  };
  return (
    <div class="editor">
      <label>
        {label}
        <textarea rows={12} spellcheck={false} value={value} onInput={(event) => onValue(event.currentTarget.value)} onKeyDown={onKeyDown} />
      </label>
      <button type="button" class="primary" onClick={onRun} disabled={busy}>
        {busy ? "Running…" : "Run"}
      </button>
      <span class="details"> or Ctrl+Enter</span>
    </div>
  );
}

// Sends what was written, and has the answer.
function useRun(path) {
  const [state, setState] = useState({ busy: false, answer: null, error: null });
  const control = useRef(null);
  const run = async (text) => {
    control.current?.abort();
    control.current = new AbortController();
    setState((last) => ({ ...last, busy: true, error: null }));
    try {
      let request;
      try {
        request = JSON.parse(text);
      } catch (error) {
        throw new Error(`this is not JSON: ${error.message}`);
      }
      setState({ busy: false, answer: await post(path, request, control.current.signal), error: null });
    } catch (error) {
      if (error.name !== "AbortError") setState({ busy: false, answer: null, error });
    }
  };
  return { ...state, run };
}

function Builder({ onAdd }) {
  const [key, setKey] = useState("drain");
  const [values, setValues] = useState(["", ""]);
  const action = ACTIONS.find((one) => one.key === key);
  const add = (event) => {
    event.preventDefault();
    const [first, second] = values;
    if (key === "addNodes") onAdd({ addNodes: { n: Number(first) || 1, like: second } });
    else if (key === "apply") onAdd({ apply: [{ apiVersion: "v1", kind: "Pod", metadata: { name: "new" }, spec: { containers: [{ name: "main" }] } }] });
    else onAdd({ [key]: first });
    setValues(["", ""]);
  };
  return (
    <form class="filters" onSubmit={add}>
      <label>
        Action
        <select value={key} onChange={(event) => setKey(event.currentTarget.value)}>
          {ACTIONS.map((one) => (
            <option key={one.key} value={one.key}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      {action.fields.map((field, i) => (
        <label key={field} class="grow">
          {field}
          <input required value={values[i]} onInput={(event) => setValues(values.map((value, at) => (at === i ? event.currentTarget.value : value)))} />
        </label>
      ))}
      <button type="submit">Add</button>
    </form>
  );
}

function Compare({ title, of: { before, after }, write }) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (!names.length) return null;
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">{title}</th>
            <th scope="col" class="n">
              Before
            </th>
            <th scope="col" class="n">
              After
            </th>
            <th scope="col" class="n">
              Change
            </th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const [from, to] = [before[name] ?? 0, after[name] ?? 0];
            return (
              <tr key={name}>
                <th scope="row">
                  <Text of={name} />
                </th>
                <td class="n">{write(from)}</td>
                <td class="n">{write(to)}</td>
                <td class="n">{to === from ? "–" : `${to > from ? "+" : "−"}${write(Math.abs(to - from))}`}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const PodName = ({ of }) => (
  <a href={podLink(of)}>
    <Text of={of} />
  </a>
);

function Moves({ title, of, children }) {
  if (!of?.length) return null;
  return (
    <details open>
      <summary>
        <strong>{number(of.length)}</strong> {title}
      </summary>
      <ul class="plain">
        <Some of={of}>{children}</Some>
      </ul>
    </details>
  );
}

function Plan({ plan }) {
  const { placed = [], pending = [], evicted = [], lost = [], brokenBudgets = [] } = plan;
  return (
    <div aria-live="polite">
      <p>
        {plural(placed.length, "pod")} placed, {number(pending.length)} pending, {number(evicted.length)} evicted, after {plural(plan.decisions, "decision")}.
      </p>
      <div class="compare">
        <Compare title="Requested" of={plan.utilisation} write={percent} />
        <Compare title="Pods by zone" of={plan.podsByZone ?? { before: {}, after: {} }} write={number} />
      </div>
      <Moves title="pending" of={pending}>
        {({ pod, from, message }) => (
          <li key={pod}>
            <PodName of={pod} /> {from && <span class="details">was on <Text of={from} /></span>} <Text of={message} />
          </li>
        )}
      </Moves>
      <Moves title="evicted for others" of={evicted}>
        {(one) => (
          <li key={one.pod}>
            <PodName of={one.pod} /> for <PodName of={one.for} />
          </li>
        )}
      </Moves>
      <Moves title="lost" of={lost}>
        {({ pod, from }) => (
          <li key={pod}>
            <Text of={pod} /> was on <Text of={from} />
          </li>
        )}
      </Moves>
      <Moves title="budgets broken" of={brokenBudgets}>
        {({ budget, allowed, evicted: n }) => (
          <li key={budget}>
            <Text of={budget} /> allows {number(allowed)}, {number(n)} evicted
          </li>
        )}
      </Moves>
      <Moves title="placed" of={placed}>
        {({ pod, from, to }) => (
          <li key={pod}>
            <PodName of={pod} /> {from && <><Text of={from} /> </>}→ <Text of={to} />
          </li>
        )}
      </Moves>
    </div>
  );
}

// What is counted, as far as it may be named.
function nameOf({ pod, group, withheld, pods }) {
  if (withheld) return pods ? "a group that you may not list" : "a pod that you may not list";
  return group ? `${group} (${plural(pods, "pod")})` : pod;
}

// How many more of each shape of the cluster fit, each by itself.
function AllShapes({ shapes }) {
  const [n, setN] = useState(100);
  if (!shapes.length) return <p aria-live="polite">There are no shapes.</p>;
  return (
    <div class="scroll" aria-live="polite">
      <table class="shapes">
        <thead>
          <tr>
            <th scope="col">Shape</th>
            <th scope="col" class="n">
              Fit
            </th>
            <th scope="col">Stopped by</th>
          </tr>
        </thead>
        <tbody>
          {shapes.slice(0, n).map((shape, i) => (
            <tr key={i}>
              <th scope="row">
                <Text of={nameOf(shape)} />
              </th>
              <td class="n">{number(shape.fits)}</td>
              <td class="message">{shape.stoppedBy && <Text of={shape.stoppedBy} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {n < shapes.length && (
        <button type="button" onClick={() => setN(n + 200)}>
          {number(shapes.length - n)} more
        </button>
      )}
    </div>
  );
}

function Capacity({ answer }) {
  return (
    <div aria-live="polite">
      {answer.shapes.map((shape, i) => (
        <div key={i}>
          <p>
            <strong>{number(shape.fits)}</strong> more of <Text of={nameOf(shape)} /> fit.
          </p>
          {shape.stoppedBy && (
            <p class="message">
              <Text of={shape.stoppedBy} />
            </p>
          )}
          {(shape.remedies ?? []).length > 0 && (
            <ul class="plain">
              {shape.remedies.map(({ text }) => (
                <li key={text}>
                  <Text of={text} />
                </li>
              ))}
            </ul>
          )}
        </div>
      ))}
    </div>
  );
}

export function WhatIf() {
  const [text, setText] = useState(draft);
  const [pods, setPods] = useState(capacityDraft);
  const [namespace, setNamespace] = useState("");
  const plan = useRun("what-if");
  const capacity = useRun("capacity");
  const shapes = useRun("capacity");
  const countShapes = (event) => {
    event.preventDefault();
    shapes.run(JSON.stringify({ allShapes: true, ...(namespace && { namespace }) }));
  };
  const write = (value) => {
    draft = value;
    setText(value);
  };
  const add = (action) => {
    let request;
    try {
      request = JSON.parse(text);
    } catch {
      request = null;
    }
    if (!Array.isArray(request?.actions)) request = { actions: [] };
    request.actions.push(action);
    write(JSON.stringify(request, null, 2));
  };
  return (
    <>
      <h1>What if</h1>
      <p>All actions take effect, then the scheduler does its work on a copy. Nothing is changed.</p>
      <div class="panels">
        <Panel title="If the cluster changed" wide>
          <Builder onAdd={add} />
          <Editor label="Actions" value={text} onValue={write} onRun={() => plan.run(text)} busy={plan.busy} />
          <Failure error={plan.error} />
          {plan.answer && <Plan plan={plan.answer} />}
        </Panel>
        <Panel title="How many more pods fit" wide>
          <Editor
            label="Pods"
            value={pods}
            onValue={(value) => {
              capacityDraft = value;
              setPods(value);
            }}
            onRun={() => capacity.run(pods)}
            busy={capacity.busy}
          />
          <Failure error={capacity.error} />
          {capacity.answer && <Capacity answer={capacity.answer} />}
        </Panel>
        <Panel title="How many more of all that there is fit" wide>
          <form class="filters" onSubmit={countShapes}>
            <label class="grow">
              Namespace, or nothing for all
              <input value={namespace} onInput={(event) => setNamespace(event.currentTarget.value.trim())} />
            </label>
            <button type="submit" class="primary" disabled={shapes.busy}>
              {shapes.busy ? "Counting…" : "Count all shapes"}
            </button>
          </form>
          <Failure error={shapes.error} />
          {shapes.answer && <AllShapes shapes={shapes.answer.shapes} />}
        </Panel>
      </div>
    </>
  );
}
