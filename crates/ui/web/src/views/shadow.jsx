// What a shadow has found: how the scheduler of the cluster compares with this one.
import { useState } from "preact/hooks";
import { query, useAnswer } from "../api.js";
import { age, link, number, percent, plural, podLink, share, span, time } from "../format.js";
import { Failure, Loading, Meter, Panel, Text } from "../parts.jsx";

// The kinds of disagreements with their names.
const KINDS = {
  worse: "worse",
  infeasible: "infeasible",
  unschedulable: "unschedulable",
  pending: "pending although it fits",
  unjudged: "not judged",
};

// What can be said of a choice: the field, its name, whether it is agreement, and what it means.
const CHOICES = [
  ["same", "same node", "good", "it is the best one"],
  ["tie", "tie", "good", "it is one of several that are equally good"],
  ["worse", "worse", "bad", "another node has a higher score"],
  ["infeasible", "infeasible", "bad", "a plugin rejects the node; another one would be chosen"],
  ["unschedulable", "unschedulable", "bad", "a plugin rejects the node, and no other one fits"],
  ["unjudged", "not judged", "doubtful", "the node was not known, or an error prevented it"],
];
const PENDING = [
  ["bothPending", "both pending", "good", "times that both find no node"],
  ["pendingAlthoughFits", "pending although it fits", "bad", "times that only the other scheduler finds no node"],
];

// All of them is said only if it is so.
const floored = (part, whole) => (whole ? `${Math.floor((part / whole) * 1000) / 10}%` : "–");

const seconds = (value) => span(value * 1000);

function Agreement({ configuration }) {
  const { name, release, pods, medianMargin, maxMargin, worseBy, infeasibleBy } = configuration;
  const agreed = pods.same + pods.tie;
  const judged = pods.compared - pods.unjudged;
  return (
    <Panel
      wide
      title={
        <>
          {floored(agreed, judged)} of {plural(pods.compared, "pod")} agree with <Text of={name} />, as release <Text of={release} /> decides
        </>
      }
    >
      <div class="scroll">
        <table class="choices">
          <thead>
            <tr>
              <th scope="col">Choice</th>
              <th scope="col" class="n">
                Pods
              </th>
              <th scope="col" class="bar">
                Share
              </th>
              <th scope="col" class="wide-only">
                Meaning
              </th>
            </tr>
          </thead>
          <tbody>
            {[...CHOICES, ...PENDING]
              .filter(([field]) => pods[field] || field === "same")
              .map(([field, label, mark, meaning]) => (
                <tr key={field}>
                  <th scope="row">
                    <span class={`verdict ${mark}`}>{label}</span>
                  </th>
                  <td class="n">{number(pods[field])}</td>
                  <td class="bar">
                    {CHOICES.some(([choice]) => choice === field) && (
                      <>
                        <Meter requested={pods[field]} allocatable={pods.compared} label={label} />
                        <span class="beside">{percent(share(pods[field], pods.compared))}</span>
                      </>
                    )}
                  </td>
                  <td class="details wide-only">{meaning}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
      {pods.reordered > 0 && (
        <p class="details">{number(pods.reordered)} of the agreements need bindings of about the same time to be in another order.</p>
      )}
      {maxMargin !== undefined && (
        <p class="details">
          Nodes that are worse have {number(medianMargin)} points less in the median, and at most {number(maxMargin)}.
        </p>
      )}
      {worseBy.length > 0 && (
        <Rows head={["Worse by", ">Pods", ">Mean points"]} rows={worseBy.map(({ plugin, pods: n, meanPoints }) => [plugin, number(n), number(meanPoints)])} />
      )}
      {infeasibleBy.length > 0 && (
        <Rows head={["Infeasible by", ">Pods", "Reason"]} rows={infeasibleBy.map(({ plugin, pods: n, reason }) => [plugin, number(n), reason])} />
      )}
    </Panel>
  );
}

// A table of texts. A column whose heading begins with > has numbers.
function Rows({ head, rows }) {
  const numeric = head.map((text) => (text.startsWith(">") ? "n" : undefined));
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            {head.map((text, column) => (
              <th scope="col" class={numeric[column]} key={text}>
                {text.replace(/^>/, "")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((text, column) =>
                column === 0 ? (
                  <th scope="row" key={column}>
                    <Text of={text} />
                  </th>
                ) : (
                  <td class={numeric[column]} key={column}>
                    <Text of={text} />
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Two clusters side by side: as the other scheduler has made it, and as our decisions would have.
function Clusters({ report }) {
  const { utilisation, balance, ourCluster: ours } = report;
  const part = (value) => (value === undefined ? "–" : percent(value));
  const spread = ({ min, median, max }, say) => `${say(min)} / ${say(median)} / ${say(max)}`;
  const rows = Object.entries(utilisation).map(([name, theirs]) => [`${name}, requested`, part(theirs), part(ours?.utilisation[name])]);
  const of = (title, take) => rows.push([title, take(balance), ours && take(ours.balance)]);
  of("pods of a node, min / median / max", (one) => spread(one.podsPerNode, number));
  of("cpu of a node", (one) => spread(one.cpu, percent));
  of("memory of a node", (one) => spread(one.memory, percent));
  of("nodes without a pod", (one) => number(one.emptyNodes));
  const zones = new Set([...Object.keys(balance.podsByZone ?? {}), ...Object.keys(ours?.balance.podsByZone ?? {})]);
  for (const zone of [...zones].sort()) of(`pods in ${zone}`, (one) => number(one.podsByZone?.[zone] ?? 0));
  return (
    <Panel title={ours ? "The cluster as it is, and as our decisions would have made it" : "The cluster as it is"} wide>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col" />
              <th scope="col" class="n">
                As it is
              </th>
              {ours && (
                <th scope="col" class="n">
                  Ours
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map(([title, theirs, own]) => (
              <tr key={title}>
                <th scope="row">
                  <Text of={title} />
                </th>
                <td class="n">{theirs}</td>
                {ours && <td class="n">{own}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {ours && (
        <p class="details">
          Our decisions have placed {plural(ours.placed, "pod")}, {number(ours.elsewhere)} of them on another node, and {number(ours.stillPending)} are
          pending, of which the other scheduler has placed {number(ours.pendingOnlyHere)}.
        </p>
      )}
    </Panel>
  );
}

function Pending({ report }) {
  const { pendingTime: theirs, ourCluster, stillPending } = report;
  const columns = [["theirs", theirs], ...(ourCluster ? [["ours", ourCluster.pendingTime]] : [])].filter(([, times]) => times.count);
  return (
    <Panel title="Pending" wide>
      {columns.length > 0 && (
        <Rows
          head={["Until a node was found", ">Pods", ">Half", ">90 %", ">99 %", ">All"]}
          rows={columns.map(([whose, times]) => [
            whose,
            number(times.count),
            seconds(times.p50Seconds),
            seconds(times.p90Seconds),
            seconds(times.p99Seconds),
            seconds(times.maxSeconds),
          ])}
        />
      )}
      <p class="details">
        {number(stillPending.pods)} still pending, of which the other scheduler finds no node for {number(stillPending.saidUnschedulable)}, and{" "}
        {number(stillPending.gated)} are gated.
      </p>
    </Panel>
  );
}

function Between({ differences }) {
  const { compared, same, overlap, different, oneFindsNone, examples } = differences;
  const nodes = (names) => (names.length ? names.join(", ") : "none");
  return (
    <Panel title={`Between the configurations, ${plural(compared, "pod")} on the same states`} wide>
      <Rows
        head={["Best nodes", ">Pods"]}
        rows={[
          ["the same", number(same)],
          ["partly the same", number(overlap)],
          ["different", number(different)],
          ["only one finds any", number(oneFindsNone)],
        ]}
      />
      {examples.length > 0 && (
        <details>
          <summary>The latest pods that are decided differently</summary>
          <Rows head={["Pod", "First", "Second"]} rows={examples.slice(-50).reverse().map(({ pod, first, second }) => [pod, nodes(first), nodes(second)])} />
        </details>
      )}
    </Panel>
  );
}

function Disagreement({ of: one }) {
  const { pod, at, kind, configuration, theirs, ours, margin, points = [], why, reproduction } = one;
  return (
    <li class="disagreement">
      <p>
        <a href={podLink(pod)}>
          <Text of={pod} />
        </a>{" "}
        <span class={`verdict ${kind === "unjudged" ? "doubtful" : "bad"}`}>{KINDS[kind] ?? <Text of={kind} />}</span> <time class="details">{time(at)}</time>
      </p>
      <p>
        <Text of={why} />
      </p>
      <details>
        <summary>Details</summary>
        <dl class="pairs">
          <div>
            <dt>theirs</dt>
            <dd>{theirs ? <a href={link("node", theirs)}><Text of={theirs} /></a> : "none"}</dd>
          </div>
          <div>
            <dt>ours</dt>
            <dd>{ours.length ? <Text of={ours.join(", ")} /> : "none"}</dd>
          </div>
          {margin !== undefined && (
            <div>
              <dt>margin</dt>
              <dd>{plural(margin, "point")}</dd>
            </div>
          )}
          <div>
            <dt>by</dt>
            <dd>
              <Text of={configuration} />
            </dd>
          </div>
        </dl>
        {points.length > 0 && <Rows head={["Plugin", ">Points for our node"]} rows={points.map(({ plugin, points: n }) => [plugin, number(n)])} />}
        {reproduction && (
          <pre class="json">
            <Text of={reproduction.command} />
          </pre>
        )}
      </details>
    </li>
  );
}

const PART = 50;

function Disagreements({ report, asked, ask }) {
  const { disagreements, total, disagreementsDropped, withheld } = report;
  return (
    <Panel title={`${plural(total, "disagreement")}, the latest first`} wide>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Kind
          <select value={asked.kind} onChange={(event) => ask({ kind: event.currentTarget.value, limit: PART })}>
            <option value="">all</option>
            {Object.entries(KINDS).map(([kind, label]) => (
              <option value={kind} key={kind}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          Pod or node
          <input type="search" value={asked.search} placeholder="part of a name" onInput={(event) => ask({ search: event.currentTarget.value, limit: PART })} />
        </label>
      </form>
      {total === 0 && <p class="nothing">None.</p>}
      <ul class="plain">
        {disagreements.map((one) => (
          <Disagreement of={one} key={one.number} />
        ))}
      </ul>
      {disagreements.length < Math.min(total, 1000) && (
        <button type="button" onClick={() => ask({ limit: Math.min(1000, asked.limit + 200) })}>
          More
        </button>
      )}
      {disagreementsDropped > 0 && <p class="details">{plural(disagreementsDropped, "earlier one is", "earlier ones are")} not listed any more.</p>}
      {withheld > 0 && <p class="details">{plural(withheld, "disagreement is", "disagreements are")} about pods that you may not list.</p>}
    </Panel>
  );
}

export function Shadow({ version }) {
  const [asked, setAsked] = useState({ kind: "", search: "", limit: PART });
  const { data, error } = useAnswer(query("shadow", asked), version);
  // While another part is on its way, the last one stands.
  const [last, setLast] = useState(null);
  if (data && data !== last) setLast(data);
  const report = data ?? last;
  if (!report) return error ? <Failure error={error} /> : <Loading />;
  const { schedulerNames, began, ended, notSeenPending, configurations, betweenConfigurations, limits } = report;
  return (
    <>
      <h1>
        Shadow of <Text of={schedulerNames.join(", ")} />
      </h1>
      <p class="as-of">
        {began ? <span>{`Compared for ${age(began, ended)}, since ${time(began)}.`}</span> : <span>Nothing is compared yet: the cluster is not known completely.</span>}
        {notSeenPending > 0 && <span>{plural(notSeenPending, "pod was", "pods were")} first seen on a node.</span>}
      </p>
      <Failure error={error} />
      <div class="panels">
        {configurations.map((configuration) => (
          <Agreement configuration={configuration} key={configuration.name} />
        ))}
        <Disagreements report={report} asked={asked} ask={(change) => setAsked({ ...asked, ...change })} />
        {betweenConfigurations && <Between differences={betweenConfigurations} />}
        <Pending report={report} />
        <Clusters report={report} />
        <Panel title="How far this can be trusted" wide>
          <ul class="plain">
            {limits.map((limit) => (
              <li key={limit}>
                <Text of={limit} />
              </li>
            ))}
          </ul>
        </Panel>
      </div>
    </>
  );
}
