// All nodes at once, as squares on a canvas.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { percent, plural, visible } from "./format.js";
import { useDark, useSize } from "./parts.jsx";

// From an empty node to a full one. On a dark page full nodes are bright.
const RAMP = [
  [226, 240, 236],
  [150, 210, 201],
  [67, 160, 168],
  [22, 101, 128],
  [13, 45, 82],
];
const DARK_RAMP = [
  [33, 45, 54],
  [25, 84, 104],
  [30, 135, 143],
  [99, 193, 166],
  [233, 245, 190],
];
const OVER = "#d6336c";
const STEPS = 64;
const GAP = 22;

function steps(ramp) {
  return Array.from({ length: STEPS + 1 }, (_, step) => {
    const place = (step / STEPS) * (ramp.length - 1);
    const at = Math.min(Math.floor(place), ramp.length - 2);
    const mix = ramp[at].map((from, i) => Math.round(from + (ramp[at + 1][i] - from) * (place - at)));
    return `rgb(${mix})`;
  });
}
const COLORS = steps(RAMP);
const DARK_COLORS = steps(DARK_RAMP);

// Where each square is: blocks below each other, each with a title.
function place(blocks, width, most) {
  const total = blocks.reduce((sum, block) => sum + block.nodes.length, 0);
  if (!total || width <= 0) return { size: 0, height: 0, columns: 1, tops: [] };
  const titles = blocks.length > 1 ? GAP : 0;
  const rowsAt = (columns) => blocks.reduce((sum, block) => sum + Math.ceil(block.nodes.length / columns), 0);
  let size = Math.max(3, Math.min(30, Math.floor(Math.sqrt((width * most) / total))));
  while (size > 3 && rowsAt(Math.max(1, Math.floor(width / size))) * size + titles * blocks.length > most) size -= 1;
  const columns = Math.max(1, Math.floor(width / size));
  let top = 0;
  const tops = blocks.map((block) => {
    const begin = top + titles;
    top = begin + Math.ceil(block.nodes.length / columns) * size;
    return begin;
  });
  return { size, columns, tops, height: top };
}

export function HeatMap({ blocks, value, describe, marked, onOpen, label }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const { width } = useSize(box);
  const dark = useDark();
  const [current, setCurrent] = useState(0);
  const [tip, setTip] = useState(null);
  const [focused, setFocused] = useState(false);
  const most = Math.max(240, Math.min(620, innerHeight * 0.62));
  const layout = useMemo(() => place(blocks, width, most), [blocks, width, most]);
  // The squares in their order: the node, and where it is.
  const squares = useMemo(
    () =>
      blocks.flatMap((block, b) =>
        block.nodes.map((node, i) => ({
          node,
          x: (i % layout.columns) * layout.size,
          y: layout.tops[b] + Math.floor(i / layout.columns) * layout.size,
        })),
      ),
    [blocks, layout],
  );
  const at = Math.min(current, squares.length - 1);
  useEffect(() => {
    const ratio = devicePixelRatio || 1;
    const element = canvas.current;
    element.width = Math.round(width * ratio);
    element.height = Math.round(layout.height * ratio);
    const pen = element.getContext("2d");
    pen.scale(ratio, ratio);
    const ramp = dark ? DARK_COLORS : COLORS;
    const inner = layout.size > 5 ? layout.size - 1 : layout.size - 0.5;
    for (const { node, x, y } of squares) {
      const part = value(node);
      pen.fillStyle = part > 1 ? OVER : ramp[Math.round(Math.max(0, Math.min(1, part)) * STEPS)];
      pen.fillRect(x, y, inner, inner);
      if (marked(node)) {
        pen.strokeStyle = dark ? "#ffb454" : "#b45309";
        pen.lineWidth = layout.size > 8 ? 1.5 : 1;
        pen.beginPath();
        pen.moveTo(x, y + inner);
        pen.lineTo(x + inner, y);
        pen.stroke();
      }
    }
    if (blocks.length > 1) {
      pen.fillStyle = dark ? "#c9d3dc" : "#3b444c";
      pen.font = "600 12px system-ui, sans-serif";
      pen.textBaseline = "bottom";
      blocks.forEach((block, b) => {
        const title = `${visible(block.title) || "no zone"} · ${plural(block.nodes.length, "node")}`;
        pen.fillText(title, 0, layout.tops[b] - 4, width);
      });
    }
    if (focused && squares[at]) {
      pen.strokeStyle = dark ? "#fff" : "#000";
      pen.lineWidth = 2;
      pen.strokeRect(squares[at].x - 1, squares[at].y - 1, inner + 2, inner + 2);
    }
  }, [squares, layout, width, dark, value, marked, focused, at]);
  const under = (event) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const column = Math.floor(x / layout.size);
    if (column < 0 || column >= layout.columns) return -1;
    let begin = 0;
    for (let b = 0; b < blocks.length; b++) {
      const n = blocks[b].nodes.length;
      const row = Math.floor((y - layout.tops[b]) / layout.size);
      const i = row * layout.columns + column;
      if (row >= 0 && i < n && row < Math.ceil(n / layout.columns)) return begin + i;
      begin += n;
    }
    return -1;
  };
  const show = (index) => {
    const square = squares[index];
    if (!square) return setTip(null);
    const right = square.x > width / 2;
    return setTip({ node: square.node, x: right ? undefined : square.x + layout.size + 6, right: right ? width - square.x + 6 : undefined, y: square.y });
  };
  const onKeyDown = (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.columns, ArrowDown: layout.columns, Home: -squares.length, End: squares.length };
    if (event.key in moves) {
      const next = Math.max(0, Math.min(squares.length - 1, at + moves[event.key]));
      setCurrent(next);
      show(next);
    } else if (event.key === "Enter" && squares[at]) onOpen(squares[at].node);
    else if (event.key === "Escape") setTip(null);
    else return;
    event.preventDefault();
  };
  return (
    <div class="heat" ref={box}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="heat map"
        aria-label={label}
        aria-describedby="heat-now"
        style={{ width: `${width}px`, height: `${layout.height}px` }}
        onKeyDown={onKeyDown}
        onFocus={() => {
          setFocused(true);
        }}
        onBlur={() => {
          setFocused(false);
          setTip(null);
        }}
        onPointerMove={(event) => show(under(event))}
        onPointerLeave={() => setTip(null)}
        onClick={(event) => {
          const index = under(event);
          if (index >= 0) onOpen(squares[index].node);
        }}
      />
      {tip && (
        <div class="tip" style={{ left: tip.x === undefined ? "auto" : `${tip.x}px`, right: tip.right === undefined ? "auto" : `${tip.right}px`, top: `${tip.y}px` }}>
          {describe(tip.node)}
        </div>
      )}
      <p id="heat-now" class="unseen" aria-live="polite">
        {focused && tip ? describe(tip.node) : ""}
      </p>
    </div>
  );
}

export function Legend() {
  const dark = useDark();
  const ramp = dark ? DARK_RAMP : RAMP;
  return (
    <p class="legend">
      <span>{percent(0)}</span>
      <span class="ramp" style={{ background: `linear-gradient(to right, ${ramp.map((color) => `rgb(${color})`).join(",")})` }} />
      <span>{percent(1)}</span>
      <span>
        <span class="square over" /> more than there is
      </span>
      <span>
        <span class="square cordoned" /> cordoned
      </span>
    </p>
  );
}
