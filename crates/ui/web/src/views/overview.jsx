import { useAnswer } from "../api.js";
import { Chart } from "../chart.jsx";
import { amount, isKnown, link, number, percent, plural, share, STATES, time } from "../format.js";
import { Failure, Loading, Meter, Panel, Text, Usage } from "../parts.jsx";

function Tile({ label, value, href, mark }) {
  return (
    <a class={mark && value ? `tile ${mark}` : "tile"} href={href}>
      <span class="value">{number(value)}</span>
      <span class="label">{label}</span>
    </a>
  );
}

function Zones({ zones }) {
  const shown = ["cpu", "memory"];
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Zone</th>
            <th scope="col" class="n">
              Nodes
            </th>
            <th scope="col" class="n">
              Pods
            </th>
            {shown.map((name) => (
              <th scope="col" class="bar" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {zones.map(({ zone, nodes, pods, resources }) => (
            <tr key={zone}>
              <th scope="row">{zone ? <Text of={zone} /> : "no zone"}</th>
              <td class="n">{number(nodes)}</td>
              <td class="n">{number(pods)}</td>
              {shown.map((name) => {
                const { requested = 0, allocatable = 0 } = resources.find((one) => one.name === name) ?? {};
                return (
                  <td class="bar" key={name} title={`${amount(name, requested)} of ${amount(name, allocatable)}`}>
                    <Meter requested={requested} allocatable={allocatable} label={name} />
                    <span class="beside">{percent(share(requested, allocatable))}</span>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Timeline({ version }) {
  const { data, error } = useAnswer("timeline", version);
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  if (!data.at.length) return <p class="nothing">Nothing has happened yet.</p>;
  return (
    <div class="charts">
      {data.charts
        .filter((chart) => chart.lines.length)
        .map((chart) => (
          <Chart key={chart.title} at={data.at} chart={chart} />
        ))}
    </div>
  );
}

export function Overview({ overview, version }) {
  const { views, nodes, pods, resources, zones, reasons } = overview;
  const waiting = Object.keys(STATES).filter((state) => state !== "placed");
  return (
    <>
      {views.cluster && (
        <>
          <h1 class="unseen">Overview</h1>
          <div class="tiles">
            <Tile label={nodes.all === 1 ? "node" : "nodes"} value={nodes.all} href="#/nodes" />
            <Tile label="pods on nodes" value={pods.placed} href={`${link("pods")}?state=placed`} />
            {waiting
              .filter((state) => pods[state] || ["unschedulable", "active"].includes(state))
              .map((state) => (
                <Tile
                  key={state}
                  label={STATES[state]}
                  value={pods[state]}
                  mark={state}
                  href={`${link("pods")}?state=${state}`}
                />
              ))}
          </div>
          <p class="as-of">
            {isKnown(overview.asOf) && <span>As of {time(overview.asOf)}.</span>}
            {nodes.unschedulable > 0 && <span>{plural(nodes.unschedulable, "node is", "nodes are")} cordoned.</span>}
            {nodes.tainted > 0 && <span>{plural(nodes.tainted, "node has a taint", "nodes have taints")}.</span>}
          </p>
        </>
      )}
      <div class="panels">
        {views.timeline && (
          <Panel title="Over time" wide>
            <Timeline version={version} />
          </Panel>
        )}
        {views.cluster && nodes.all === 0 && (
          <Panel title="No nodes" wide>
            <p class="nothing">The cluster has no nodes, so no pod can be placed.</p>
          </Panel>
        )}
        {nodes.all > 0 && (
          <>
            <Panel title="Resources">
              <Usage resources={resources} />
            </Panel>
            <Panel title="Zones">
              <Zones zones={zones} />
            </Panel>
          </>
        )}
        {reasons.length > 0 && (
          <Panel title="Why pods are pending" wide>
            <ul class="reasons">
              {reasons.map(({ reason, pods: n }) => (
                <li key={reason}>
                  <span class="count">{number(n)}</span> <Text of={reason} />
                </li>
              ))}
            </ul>
          </Panel>
        )}
      </div>
    </>
  );
}

