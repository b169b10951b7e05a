// How values are written.

const BYTES = new Set(["memory", "ephemeral-storage"]);
const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0, useGrouping: false });
}

// An amount of a resource: CPU comes in thousandths of a core, memory in bytes.
export function amount(resource, value) {
  if (resource === "cpu") return digits(value / 1000);
  if (BYTES.has(resource) || resource.startsWith("hugepages-")) {
    let unit = 0;
    let rest = value;
    while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
      rest /= 1024;
      unit += 1;
    }
    return digits(rest) + UNITS[unit];
  }
  return number(value);
}

export const number = (value) => value.toLocaleString("en");

export const percent = (share) => (Number.isFinite(share) ? `${digits(share * 100)}%` : "–");

export const share = (requested, allocatable) =>
  allocatable > 0 ? requested / allocatable : requested > 0 ? Infinity : 0;

export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// Characters that are not seen, or change the direction of text, are written as their numbers.
const UNSEEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
export const visible = (text) =>
  String(text).replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function time(value) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "Z");
}

// Of files without any times the picture is from the beginning of 1970, which says nothing.
export const isKnown = (value) => new Date(value).getTime() > 0;

export function age(from, to) {
  const seconds = Math.round((new Date(to) - new Date(from)) / 1000);
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const span = (milliseconds) => {
  if (milliseconds < 1000) return `${digits(milliseconds)} ms`;
  return milliseconds < 120000 ? `${digits(milliseconds / 1000)} s` : `${digits(milliseconds / 60000)} min`;
};

export const STATES = {
  unschedulable: "unschedulable",
  gated: "gated",
  backoff: "in backoff",
  active: "ready",
  inFlight: "in flight",
  placed: "on a node",
};

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const podLink = (pod) => link("pod", ...pod.split("/"));
