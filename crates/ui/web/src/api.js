// Requests to the API, and the stream of events.
import { useEffect, useRef, useState } from "preact/hooks";

// At `/` of `plimsoll serve` the API is below the page, at `/ui/` of `plimsoll run` beside it.
const base = new URL(location.pathname.endsWith("/ui/") ? "../api/v1/" : "api/v1/", location.href);

// The token is kept in memory alone: it is gone when the page is closed or loaded again.
let token = null;
const listeners = new Set();

export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export function setToken(given) {
  token = given || null;
  listeners.forEach((listener) => listener());
}

export function onToken(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function send(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(new URL(path, base), { ...options, headers, credentials: "same-origin", redirect: "error" });
}

async function answerOf(response) {
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  if (response.ok && value !== null) return value;
  const message = value?.message ?? text.trim();
  throw new ApiError(response.status, message || `the server answered with status ${response.status}`);
}

function failed(error) {
  if (error instanceof ApiError || error.name === "AbortError") return error;
  return new ApiError(0, "the server cannot be reached; it may have been stopped");
}

export async function ask(path, signal) {
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await send(path, { signal });
      // One question is answered at a time.
      if (response.status === 429 && attempt < 20) {
        await new Promise((resolve) => setTimeout(resolve, 250 + 250 * Math.min(attempt, 7)));
        continue;
      }
      return await answerOf(response);
    } catch (error) {
      throw failed(error);
    }
  }
}

export async function post(path, body, signal) {
  try {
    const headers = { "Content-Type": "application/json" };
    return await answerOf(await send(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
  } catch (error) {
    throw failed(error);
  }
}

export const query = (path, parameters) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

// The answer to a question. It is asked again when `version` changes; until there is an answer, the last one stands.
export function useAnswer(path, version) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  useEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    ask(path, control.signal).then(
      (data) => setState({ path, data, error: null }),
      (error) => error.name !== "AbortError" && setState((last) => ({ path, data: last.path === path ? last.data : null, error })),
    );
    return () => control.abort();
  }, [path, version]);
  return state.path === path ? state : { data: null, error: null };
}

// How often the server has told of changes, at most once every two seconds, and whether there is a connection.
export function useChanges() {
  const [version, setVersion] = useState(0);
  const [connected, setConnected] = useState(true);
  const [streams, setStreams] = useState(0);
  const retry = useRef(0);
  const last = useRef(null);
  const again = () => setStreams((n) => n + 1);
  useEffect(
    () =>
      onToken(() => {
        setVersion((last) => last + 1);
        again();
      }),
    [],
  );
  useEffect(() => {
    const control = new AbortController();
    let timer = null;
    let pending = false;
    const told = () => {
      if (timer) {
        pending = true;
        return;
      }
      setVersion((n) => n + 1);
      timer = setTimeout(() => {
        timer = null;
        if (pending) {
          pending = false;
          told();
        }
      }, 2000);
    };
    let restart = null;
    (async () => {
      try {
        const response = await send("events", { signal: control.signal });
        if (!response.ok) throw new ApiError(response.status, "no events");
        setConnected(true);
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const lines = (rest + value).split("\n\n");
          rest = lines.pop();
          for (const line of lines.filter((one) => one.startsWith("event: change"))) {
            const { version: now } = JSON.parse(line.slice(line.indexOf("data: ") + 6));
            // A stream begins where the last one ended if nothing has changed since. Before the first one something may have.
            if (last.current !== now) told();
            last.current = now;
          }
        }
        retry.current = 0;
      } catch (error) {
        if (error.name === "AbortError") return;
        setConnected(false);
        retry.current = Math.min(retry.current + 1, 5);
      }
      restart = setTimeout(again, 1000 * 2 ** retry.current);
    })();
    return () => {
      control.abort();
      clearTimeout(timer);
      clearTimeout(restart);
    };
  }, [streams]);
  return { version, connected };
}
