import { useMemo, useState } from "preact/hooks";
import { query, useAnswer } from "../api.js";
import { colors } from "../chart.jsx";
import { age, amount, link, number, plural, span, time, visible } from "../format.js";
import { Failure, Loading, Pairs, Panel, Remedies, Some, State, Text, useDark } from "../parts.jsx";

// Why there is, or is not, a node for a pod, in the words of /api/v1/why.
const TELLS = {
  scheduled: "It fits.",
  unschedulable: "It fits on no node.",
  gated: "It is held back.",
  backoff: "It is tried again when its backoff is over.",
  waitingOnPermit: "It has a node, and waits for a permission.",
  binding: "It is being bound.",
  preempting: "It waits for pods that are being evicted for it.",
  error: "It could not be decided.",
};

const NodeLink = ({ of }) => (
  <a href={link("node", of)}>
    <Text of={of} />
  </a>
);

// The scores of the best nodes, a bar for each plugin.
function Scores({ nodes, chosen }) {
  const dark = useDark();
  const palette = colors(dark);
  const [n, setN] = useState(10);
  const scored = useMemo(
    () => nodes.filter((node) => node.total !== undefined).sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1)),
    [nodes],
  );
  const plugins = useMemo(() => [...new Set(scored.flatMap((node) => Object.keys(node.scores ?? {})))].sort(), [scored]);
  if (!scored.length) return <p class="nothing">No node was scored: with one that passes, none is.</p>;
  const most = Math.max(1, scored[0].total);
  const shown = scored.slice(0, n);
  if (chosen && !shown.some((node) => node.name === chosen)) {
    const own = scored.find((node) => node.name === chosen);
    if (own) shown.push(own);
  }
  return (
    <>
      <ul class="key">
        {plugins.map((plugin, i) => (
          <li key={plugin}>
            <span class="square" style={{ background: palette[i % palette.length] }} /> <Text of={plugin} />
          </li>
        ))}
      </ul>
      <div class="scroll">
        <table class="scores">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col" class="n">
                Total
              </th>
              <th scope="col" class="bar">
                Score by plugin
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((node) => (
              <tr key={node.name} class={node.name === chosen ? "chosen" : ""}>
                <th scope="row">
                  <NodeLink of={node.name} />
                </th>
                <td class="n">{number(node.total)}</td>
                <td class="bar">
                  <span class="stack" role="img" aria-label={Object.entries(node.scores ?? {}).map(([plugin, score]) => `${visible(plugin)} ${score}`).join(", ")}>
                    {plugins.map((plugin, i) => {
                      const score = node.scores?.[plugin] ?? 0;
                      return score > 0 ? (
                        <span key={plugin} title={`${visible(plugin)}: ${score}`} style={{ width: `${(score / most) * 100}%`, background: palette[i % palette.length] }} />
                      ) : null;
                    })}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {n < scored.length && (
        <button type="button" onClick={() => setN(n + 50)}>
          {plural(scored.length - n, "more node")}
        </button>
      )}
    </>
  );
}

// The nodes that were rejected, by plugin and reason.
function Rejections({ nodes }) {
  const groups = useMemo(() => {
    const found = new Map();
    for (const { name, filter } of nodes) {
      if (!filter) continue;
      const key = JSON.stringify([filter.plugin, filter.reasons ?? []]);
      if (!found.has(key)) found.set(key, { ...filter, names: [] });
      found.get(key).names.push(name);
    }
    return [...found.values()].sort((a, b) => b.names.length - a.names.length);
  }, [nodes]);
  if (!groups.length) return <p class="nothing">No node was rejected.</p>;
  const most = groups[0].names.length;
  return (
    <ul class="rejections">
      {groups.map(({ plugin, reasons = [], names }) => (
        <li key={plugin + reasons.join()}>
          <details>
            <summary>
              <span class="count">{number(names.length)}</span>
              <span class="reason">
                <Text of={reasons.join(", ") || "no reason given"} /> <span class="chip">{visible(plugin)}</span>
              </span>
              <span class="share" style={{ width: `${(names.length / most) * 100}%` }} />
            </summary>
            <ul class="names">
              <Some of={names} first={50}>
                {(name) => (
                  <li key={name}>
                    <NodeLink of={name} />
                  </li>
                )}
              </Some>
            </ul>
          </details>
        </li>
      ))}
    </ul>
  );
}

function Nearest({ of }) {
  return (
    <ul class="plain">
      {of.map(({ name, failures }) => (
        <li key={name}>
          <NodeLink of={name} />
          <ul class="failures">
            {failures.map(({ plugin, reasons = [] }) => (
              <li key={plugin}>
                <Text of={reasons.join(", ")} /> <span class="chip">{visible(plugin)}</span>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}

function RunnerUp({ of: { node, total, margin, decidedBy = [] } }) {
  return (
    <p>
      The best other node is <NodeLink of={node} />
      {total !== undefined && ` with a total of ${number(total)}`}
      {margin !== undefined && (margin === 0 ? ", which is as good" : `, ${number(margin)} behind`)}
      {decidedBy.length > 0 && `. ${decidedBy.map(visible).join(", ")} decided`}.
    </p>
  );
}

export function History({ pod, version }) {
  const { data, error } = useAnswer(query("history", { pod }), version);
  if (!data) return error ? <Failure error={error} /> : <Loading />;
  if (!data.attempts.length) return <p class="nothing">The journal has no attempt of this pod.</p>;
  return (
    <>
      <ol class="history">
        {data.attempts.map((attempt) => (
          <li key={`${attempt.at}-${attempt.number}`}>
            <time>{time(attempt.at)}</time>{" "}
            <span class={`state ${attempt.result === "scheduled" ? "placed" : "unschedulable"}`}>{visible(attempt.result)}</span>
            {attempt.node && (
              <>
                {" "}
                on <NodeLink of={attempt.node} />
              </>
            )}
            <span class="details">
              {" "}
              attempt {number(attempt.number)}, after {span(attempt.at - attempt.queuedAt)} in the queue
              {attempt.feasible !== undefined && `, ${number(attempt.feasible)} of ${plural(attempt.judged, "node")} passed`}
              {attempt.margin !== undefined && `, ${number(attempt.margin)} better than the next`}
              {attempt.wokenBy && <>, woken by <Text of={attempt.wokenBy} /></>}
              {attempt.answeredAt !== undefined && `, bound ${span(attempt.answeredAt - attempt.at)} later`}
            </span>
            {[attempt.message, attempt.error].filter(Boolean).map((text) => (
              <div key={text}>
                <Text of={text} />
              </div>
            ))}
          </li>
        ))}
      </ol>
      {data.preemptions.length > 0 && (
        <ul class="plain">
          {data.preemptions.map(({ at, victim, preemptor, node }) => (
            <li key={`${at}${victim}`}>
              <time>{time(at)}</time> <Text of={victim} /> was evicted for <Text of={preemptor} />
              {node && (
                <>
                  {" "}
                  on <NodeLink of={node} />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Decision({ why }) {
  const { record, remedies = [], nearest = [], runnerUp, waiting, group } = why;
  const nodes = record?.nodes ?? [];
  const best = record?.best ?? [];
  return (
    <>
      <Panel title="Decision" wide>
        <p>
          {TELLS[why.state] ?? visible(why.state)}{" "}
          {why.node && (
            <>
              It is on <NodeLink of={why.node} />.{" "}
            </>
          )}
          {record?.node && record.node !== why.node && (
            <>
              {why.node ? "Now it would go to " : "As the next pod it would go to "}
              <NodeLink of={record.node} />
              {best.length > 1 && `, one of ${number(best.length)} that are equally good`}.
            </>
          )}
        </p>
        {record?.message && (
          <p class="message">
            <Text of={record.message} />
          </p>
        )}
        {[record?.preEnqueue, record?.preFilter].filter(Boolean).map(({ plugin, reasons = [] }) => (
          <p key={plugin}>
            <span class="chip">{visible(plugin)}</span> <Text of={reasons.join(", ")} />
          </p>
        ))}
        {record?.nomination && (
          <p>
            It preempts on <NodeLink of={record.nomination.node} />:{" "}
            {record.nomination.victims.length ? record.nomination.victims.map((victim) => <span class="chip" key={victim}><Text of={victim} /></span>) : "nothing has to be evicted."}
          </p>
        )}
        {runnerUp && <RunnerUp of={runnerUp} />}
        {waiting && (
          <p class="details">
            In the queue: {visible(waiting.place ?? "")}
            {waiting.since && `, since ${visible(waiting.since)}`}
            {waiting.attempts !== undefined && `, tried ${plural(waiting.attempts, "time")}`}
            {waiting.nextAttempt && `, tried next at ${visible(waiting.nextAttempt)} at the latest`}
            {(waiting.permits ?? []).map(({ plugin, until }) => `. ${visible(plugin)} has not allowed it yet${until ? `, and gives up at ${visible(until)}` : ""}`)}
            {waiting.reservation && `. It is not tried while room is reserved for ${visible(waiting.reservation.group)}`}
            {waiting.wokenBy?.length > 0 && `. Tried again after: ${waiting.wokenBy.map(visible).join(", ")}`}
          </p>
        )}
      </Panel>
      {group && (
        <Panel title="Its group" wide>
          <p>
            It belongs to the group <Text of={group.name} />
            {group.result && `, which is decided as a whole. By a decision now it is ${visible(group.result)}`}.
          </p>
          {group.message && (
            <p class="message">
              <Text of={group.message} />
            </p>
          )}
          {group.notTried && (
            <p>
              No change was tried for it: <Text of={group.notTried} />.
            </p>
          )}
          {(group.remedies ?? []).length > 0 && <Remedies of={group.remedies} />}
        </Panel>
      )}
      {remedies.length > 0 && (
        <Panel title="What would make it fit" wide>
          <Remedies of={remedies} />
        </Panel>
      )}
      {nodes.length > 0 && (
        <>
          {(why.node ?? record.node) && (
            <Panel title="Scores" wide>
              <Scores nodes={nodes} chosen={why.node ?? record.node} />
            </Panel>
          )}
          <Panel title="Rejected nodes" wide>
            <Rejections nodes={nodes} />
          </Panel>
        </>
      )}
      {nearest.length > 0 && (
        <Panel title="Nodes that miss by least" wide>
          <Nearest of={nearest} />
        </Panel>
      )}
    </>
  );
}

export function Pod({ pod, views, version }) {
  const { data, error } = useAnswer(views.cluster ? query("pod", { pod }) : null, version);
  // This question takes long on a large cluster, so it is asked again only if somebody wants it.
  const [asked, setAsked] = useState(version);
  const why = useAnswer(views.cluster ? query("why", { pod }) : null, asked);
  return (
    <>
      <h1>
        <span class="kind">pod</span> <Text of={pod} /> {data && <State of={data.state} />}
      </h1>
      <Failure error={error} />
      {data && (
        <p class="as-of">
          {data.controller && <Text of={data.controller} />}
          <span>Priority {number(data.priority)}.</span>
          {data.created && <span>Created {age(data.created, data.asOf)} before {time(data.asOf)}.</span>}
          {data.attempts > 0 && <span>Tried {plural(data.attempts, "time")}.</span>}
          {(data.schedulingGates ?? []).map((gate) => (
            <span class="chip" key={gate}>
              <Text of={gate} />
            </span>
          ))}
        </p>
      )}
      <div class="panels">
        {why.data && views.live && asked !== version && (
          <p class="panel wide again">
            The cluster has changed since.{" "}
            <button type="button" onClick={() => setAsked(version)}>
              Decide again
            </button>
          </p>
        )}
        {views.cluster && (why.data ? <Decision why={why.data} /> : why.error ? <Failure error={why.error} /> : <Loading />)}
        {views.history && (
          <Panel title="History" wide>
            <History pod={pod} version={version} />
          </Panel>
        )}
        {data && (
          <>
            <Panel title="Requests">
              <Pairs of={Object.fromEntries(Object.entries(data.requests).map(([name, value]) => [name, amount(name, value)]))} />
            </Panel>
            <Panel title="Labels">
              <Pairs of={data.labels} />
            </Panel>
          </>
        )}
      </div>
    </>
  );
}
