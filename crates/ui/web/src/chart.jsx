// Values over time.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { number } from "./format.js";
import { useDark, useSize } from "./parts.jsx";

const LIGHT = ["#0b6e7f", "#c2410c", "#6d3fc0", "#8a6d00", "#b3126b", "#2f6f1e", "#1f57c3", "#636b74"];
const DARK = ["#4fd0e0", "#ff9a5c", "#b79bff", "#e3c23c", "#ff7ac0", "#8fd47a", "#7fb0ff", "#aab4bf"];

export const colors = (dark) => (dark ? DARK : LIGHT);

const two = (n) => String(n).padStart(2, "0");

// A time as local clocks show it: over several days with the day, over minutes with seconds.
function clock(seconds, days) {
  const date = new Date(seconds * 1000);
  const hour = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (days > 2) return `${two(date.getMonth() + 1)}-${two(date.getDate())} ${hour}`;
  return days < 0.02 ? `${hour}:${two(date.getSeconds())}` : hour;
}

export function Chart({ at, chart }) {
  const box = useRef(null);
  const { width } = useSize(box);
  const dark = useDark();
  const palette = colors(dark);
  useEffect(() => {
    if (!width || !at.length) return undefined;
    const ink = dark ? "#aab4bf" : "#57606a";
    const grid = { stroke: dark ? "#28323c" : "#e3e7eb", width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const days = (at.at(-1) - at[0]) / 86_400_000;
    const options = {
      width: Math.floor(width),
      height: 190,
      cursor: { y: false },
      legend: { live: true },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1) * 1.05] } },
      axes: [{ ...axis, space: days > 2 ? 90 : 70, values: (_, ticks) => ticks.map((tick) => clock(tick, days)) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => number(tick)) }],
      series: [
        { label: "at", value: (_, seconds) => (seconds ? clock(seconds, days) : "–") },
        ...chart.lines.map(({ name }, index) => ({
          label: name,
          stroke: palette[index % palette.length],
          width: 1.5,
          points: { show: at.length < 2 },
        })),
      ],
    };
    const data = [at.map((millis) => millis / 1000), ...chart.lines.map((line) => line.values)];
    const plot = new uPlot(options, data, box.current);
    return () => plot.destroy();
  }, [width, dark, at, chart]);
  const last = chart.lines.map(({ name, values }) => `${name} ${values.at(-1) ?? "–"}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        {chart.title}
        {chart.unit && <span class="unit"> {chart.unit}</span>}
      </figcaption>
      <div ref={box} role="img" aria-label={`${chart.title}: last ${last}`} />
    </figure>
  );
}
