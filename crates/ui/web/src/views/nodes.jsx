import { useMemo, useState } from "preact/hooks";
import { query, useAnswer } from "../api.js";
import { amount, link, number, percent, plural, podLink, share, visible } from "../format.js";
import { HeatMap, Legend } from "../heatmap.jsx";
import { Failure, List, Loading, Meter, Pairs, Panel, State, Text, Usage } from "../parts.jsx";

export function Nodes({ version }) {
  const { data, error } = useAnswer("nodes", version);
  const [resource, setResource] = useState("cpu");
  const [sort, setSort] = useState({ by: "name", down: false });
  const [grouped, setGrouped] = useState(true);
  const [search, setSearch] = useState("");
  const column = data?.resources.find((one) => one.name === resource) ?? data?.resources[0];
  const value = useMemo(() => (at) => (column ? share(column.requested[at], column.allocatable[at]) : 0), [column]);
  const marked = useMemo(() => {
    const cordoned = new Set(data?.unschedulable);
    return (at) => cordoned.has(at);
  }, [data]);
  const order = useMemo(() => {
    if (!data) return [];
    const found = data.names.map((_, at) => at).filter((at) => data.names[at].includes(search));
    const keys = {
      name: (at) => at,
      zone: (at) => data.zones[data.zone[at]],
      pods: (at) => data.pods[at],
      share: value,
      free: (at) => (column ? column.allocatable[at] - column.requested[at] : 0),
      taints: (at) => data.taintsOf[at]?.length ?? 0,
    };
    const key = keys[sort.by];
    const sign = sort.down ? -1 : 1;
    return found.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
  }, [data, column, value, sort, search]);
  const blocks = useMemo(() => {
    if (!grouped || !data) return [{ title: "", nodes: order }];
    const zones = new Map();
    for (const at of order) {
      const zone = data.zone[at];
      if (!zones.has(zone)) zones.set(zone, []);
      zones.get(zone).push(at);
    }
    const named = [...zones].map(([zone, nodes]) => ({ title: data.zones[zone], nodes }));
    return named.sort((a, b) => (a.title < b.title ? -1 : 1));
  }, [data, order, grouped]);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  const describe = (at) => (
    <>
      <strong>
        <Text of={data.names[at]} />
      </strong>
      {data.zones[data.zone[at]] && (
        <div>
          <Text of={data.zones[data.zone[at]]} />
        </div>
      )}
      <div>{plural(data.pods[at], "pod")}</div>
      {data.resources.map(({ name, requested, allocatable }) => (
        <div key={name}>
          <Text of={name} /> {percent(share(requested[at], allocatable[at]))}, {amount(name, allocatable[at] - requested[at])} free
        </div>
      ))}
      {marked(at) && <div>cordoned</div>}
      {(data.taintsOf[at] ?? []).map((taint) => (
        <div key={taint}>
          <Text of={data.taints[taint]} />
        </div>
      ))}
    </>
  );
  const by = (name, title, cls = "") => (
    <button
      type="button"
      class={cls}
      aria-pressed={sort.by === name}
      title={`sort by ${title}`}
      onClick={() => setSort({ by: name, down: sort.by === name ? !sort.down : !["name", "zone"].includes(name) })}
    >
      {title}
      <span aria-hidden="true">{sort.by === name ? (sort.down ? " ▼" : " ▲") : ""}</span>
      {sort.by === name && <span class="unseen">{sort.down ? ", descending" : ", ascending"}</span>}
    </button>
  );
  return (
    <>
      <h1>{plural(data.names.length, "node")}</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Colour by
          <select value={column?.name} onChange={(event) => setResource(event.currentTarget.value)}>
            {data.resources.map(({ name }) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Name
          <input type="search" value={search} placeholder="part of a name" onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={grouped} onChange={(event) => setGrouped(event.currentTarget.checked)} />
          by zone
        </label>
      </form>
      <Failure error={error} />
      {order.length === 0 ? (
        <p class="nothing">{data.names.length ? "No node has such a name." : "There are no nodes."}</p>
      ) : (
        <>
          <HeatMap
            blocks={blocks}
            value={value}
            marked={marked}
            describe={describe}
            label={`${plural(order.length, "node")} by ${visible(column?.name ?? "pods")}. Arrow keys move, Enter opens a node.`}
            onOpen={(at) => {
              location.hash = link("node", data.names[at]);
            }}
          />
          <Legend />
          <List
            count={order.length}
            height={36}
            label="Nodes"
            href={(i) => link("node", data.names[order[i]])}
            head={
              <div class="row head nodes-row">
                {by("name", "Node")}
                {by("zone", "Zone", "wide-only")}
                {by("pods", "Pods", "n")}
                {by("share", visible(column?.name ?? ""), "bar")}
                {by("free", "Free", "n")}
                {by("taints", "Taints", "wide-only")}
              </div>
            }
            row={(i) => {
              const at = order[i];
              const [requested, allocatable] = column ? [column.requested[at], column.allocatable[at]] : [0, 0];
              return (
                <span class="cells nodes-row">
                  <span class="cell name">
                    <Text of={data.names[at]} />
                    {marked(at) && <span class="state gated">cordoned</span>}
                  </span>
                  <span class="cell wide-only">
                    <Text of={data.zones[data.zone[at]]} />
                  </span>
                  <span class="cell n">{number(data.pods[at])}</span>
                  <span class="cell bar">
                    <Meter requested={requested} allocatable={allocatable} label={visible(column?.name ?? "")} />
                    <span class="beside">{percent(share(requested, allocatable))}</span>
                  </span>
                  <span class="cell n">{column ? amount(column.name, allocatable - requested) : ""}</span>
                  <span class="cell wide-only">
                    {(data.taintsOf[at] ?? []).map((taint) => (
                      <span class="chip" key={taint}>
                        <Text of={data.taints[taint]} />
                      </span>
                    ))}
                  </span>
                </span>
              );
            }}
          />
        </>
      )}
    </>
  );
}

export function Node({ name, version }) {
  const { data, error } = useAnswer(query("node", { name }), version);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  return (
    <>
      <h1>
        <span class="kind">node</span> <Text of={data.name} />
      </h1>
      <p class="as-of">
        {data.zone && (
          <>
            Zone <Text of={data.zone} />.{" "}
          </>
        )}
        {data.unschedulable && <span class="state gated">cordoned</span>}
        {data.taints.map((taint) => (
          <span class="chip" key={taint}>
            <Text of={taint} />
          </span>
        ))}
      </p>
      <Failure error={error} />
      <div class="panels">
        <Panel title="Resources" wide>
          <Usage resources={data.resources} />
        </Panel>
        <Panel title={plural(data.pods.length, "pod")} wide>
          {data.pods.length === 0 && <p class="nothing">No pod is on it.</p>}
          {data.withheld > 0 && <p>{plural(data.withheld, "pod")} that you may not list.</p>}
          <ul class="plain">
            {data.pods.map(({ pod, requests, priority, state }) => (
              <li key={pod}>
                <a href={podLink(pod)}>
                  <Text of={pod} />
                </a>{" "}
                <span class="details">
                  {Object.entries(requests)
                    .map(([resource, value]) => `${visible(resource)} ${amount(resource, value)}`)
                    .join(", ")}
                  {priority !== 0 && `, priority ${number(priority)}`}
                </span>
                {state !== "placed" && <State of={state} />}
              </li>
            ))}
          </ul>
        </Panel>
        <Panel title="Labels" wide>
          <Pairs of={data.labels} />
        </Panel>
      </div>
    </>
  );
}
