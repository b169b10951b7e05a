// The page: which view is shown, and what all views have in common.
import "uplot/dist/uPlot.min.css";
import "./app.css";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setToken, useAnswer, useChanges } from "./api.js";
import { Failure, Loading } from "./parts.jsx";
import { Configuration, Devices, Groups, Journal } from "./views/more.jsx";
import { Node, Nodes } from "./views/nodes.jsx";
import { Overview } from "./views/overview.jsx";
import { Pod } from "./views/pod.jsx";
import { Pods } from "./views/pods.jsx";
import { Shadow } from "./views/shadow.jsx";
import { WhatIf } from "./views/whatif.jsx";

// The views in the order of the menu, each with the key that leads there after `g`.
const MENU = [
  { name: "", title: "Overview", key: "o", is: () => true },
  { name: "nodes", title: "Nodes", key: "n", is: (views) => views.cluster },
  { name: "pods", title: "Pods", key: "p", is: (views) => views.cluster },
  { name: "what-if", title: "What if", key: "w", is: (views) => views.cluster },
  { name: "groups", title: "Groups", key: "g", is: (views) => views.groups },
  { name: "devices", title: "Devices", key: "d", is: (views) => views.devices },
  { name: "shadow", title: "Shadow", key: "s", is: (views) => views.shadow },
  { name: "journal", title: "Journal", key: "j", is: (views) => views.journal },
  { name: "config", title: "Configuration", key: "c", is: (views) => views.configuration },
];

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function placeOf(hash) {
  const [path, parameters = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  return { name, rest, parameters: new URLSearchParams(parameters) };
}

function usePlace() {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const change = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return place;
}

// `g` and then a letter leads to a view, `/` to the first field.
function useKeys() {
  useEffect(() => {
    let began = 0;
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      if (event.key === "/") {
        const field = document.querySelector("main input[type=search]");
        if (field) {
          event.preventDefault();
          field.focus();
        }
      } else if (performance.now() - began < 1500) {
        const entry = MENU.find(({ key }) => key === event.key);
        began = 0;
        if (entry) location.hash = `#/${entry.name}`;
      } else if (event.key === "g") began = performance.now();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function TokenForm({ error }) {
  const field = useRef(null);
  return (
    <form
      class="panel token"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(field.current.value.trim());
        field.current.value = "";
      }}
    >
      <h1>A token is needed</h1>
      <p>
        This scheduler answers whom the API server authorizes. A token for a service account comes from <code>kubectl create token</code>. It stays
        in the memory of this page, and is gone when the page is closed or loaded again.
      </p>
      <label>
        Token
        <input ref={field} type="password" autocomplete="off" spellcheck={false} required />
      </label>
      <button type="submit" class="primary">
        Use it
      </button>
      <Failure error={error} />
    </form>
  );
}

function View({ place, overview, version }) {
  const { name, rest, parameters } = place;
  const [first, second] = rest;
  switch (name) {
    case "":
      return <Overview overview={overview} version={version} />;
    case "nodes":
      return <Nodes version={version} />;
    case "node":
      return <Node key={first} name={first ?? ""} version={version} />;
    case "pods":
      return <Pods parameters={parameters} version={version} />;
    case "pod":
      return <Pod key={`${first}/${second}`} pod={`${first}/${second}`} views={overview.views} version={version} />;
    case "what-if":
      return <WhatIf />;
    case "groups":
      return <Groups version={version} />;
    case "devices":
      return <Devices version={version} />;
    case "shadow":
      return <Shadow version={version} />;
    case "journal":
      return <Journal version={version} />;
    case "config":
      return <Configuration version={version} />;
    default:
      return <p class="nothing">There is no such view.</p>;
  }
}

function App() {
  const place = usePlace();
  const { version, connected } = useChanges();
  const { data, error } = useAnswer("overview", version);
  const main = useRef(null);
  useKeys();
  const title = MENU.find(({ name }) => name === place.name)?.title ?? place.rest.join("/");
  const where = [place.name, ...place.rest].join("/");
  useEffect(() => {
    document.title = `${title} · Plimsoll`;
  }, [title]);
  const seen = useRef(where);
  useEffect(() => {
    // A view that was chosen begins at its top, where a screen reader begins, too.
    if (seen.current !== where) {
      seen.current = where;
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
  }, [where]);
  const active = { node: "nodes", pod: "pods" }[place.name] ?? place.name;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        To the content
      </a>
      <header>
        <a class="brand" href="#/">
          <img src="icon.svg" alt="" width="26" height="26" /> Plimsoll
        </a>
        <nav aria-label="Views">
          {MENU.filter(({ is }) => data && is(data.views)).map(({ name, title: text, key }) => (
            <a key={name} href={`#/${name}`} aria-current={active === name ? "page" : undefined} title={`g ${key}`}>
              {text}
            </a>
          ))}
        </nav>
        <span class={connected ? "live" : "live off"} role="status">
          {connected ? (data?.views.live ? "live" : "files") : "not connected"}
        </span>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {error && [401, 403].includes(error.code) ? (
          <TokenForm error={error} />
        ) : data ? (
          <View place={place} overview={data} version={version} />
        ) : error ? (
          <Failure error={error} />
        ) : (
          <Loading />
        )}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app"));
