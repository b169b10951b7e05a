// Starts `plimsoll serve`, and a browser that notices what a page must not do.
import { spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../../../..");
export const example = join(root, "examples/cluster");
const program = process.env.PLIMSOLL ?? join(root, "target/debug/plimsoll");
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";

// Where screenshots go. With SCREENSHOTS=docs/page those that docs/page.md shows are written there.
const pictures = join(root, process.env.SCREENSHOTS ?? "target/page");
const shown = ["nodes-5000", "pod", "decision", "what-if", "shadow"];

export async function launch() {
  if (!existsSync(browserPath)) throw new Error(`${browserPath} is missing: install Debian's package chromium, or set CHROMIUM`);
  return chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu"], ignoreDefaultArgs: ["--hide-scrollbars"] });
}

// The server, and what ends it.
export async function serve(...args) {
  const child = spawn(program, ["serve", "--listen", "127.0.0.1:0", ...args], { stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((_, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
  });
  ended.catch(() => {});
  const line = new Promise((resolve) => createInterface(child.stdout).once("line", resolve));
  const url = await Promise.race([line, ended]);
  return { url, stop: () => child.kill(), cpu: () => cpuOf(child.pid) };
}

// The processor time that a process has used, in milliseconds.
async function cpuOf(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name, in parentheses, may contain spaces. Linux counts in hundredths of a second here.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export async function files(contents) {
  const folder = await mkdtemp(join(tmpdir(), "plimsoll-page-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "cluster.json");
  await writeFile(file, typeof contents === "string" ? contents : JSON.stringify(contents));
  return file;
}

// Opens a page. `faults` has what went wrong: errors, refused scripts, and requests to other hosts.
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => message.type() === "error" && !options.allowsErrors && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const target = new URL(request.url());
    if (target.protocol !== "data:" && target.origin !== new URL(url).origin) faults.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("main h1, main .tiles, main .panels, main .failure");
  return { page, faults, close: () => context.close() };
}

// Goes to a view, and waits until it is drawn.
export async function view(page, hash, selector = "main h1") {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.waitForSelector(selector);
  await page.waitForFunction(() => !document.querySelector("main .loading"));
}

export async function picture(page, name) {
  if (process.env.SCREENSHOTS && !shown.includes(name)) return;
  await mkdir(pictures, { recursive: true });
  const { width, height } = page.viewportSize();
  await page.screenshot({ path: join(pictures, `${name}.png`), clip: { x: 0, y: 0, width, height: Math.min(height, 700) } });
}

// The width by which the document is wider than the window.
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// A cluster of this size: pods fill the nodes unevenly, and some are pending.
export function cluster(nNodes, nPods, nPending) {
  const items = [];
  for (let i = 0; i < nNodes; i++) {
    const name = `node-${String(i).padStart(4, "0")}`;
    items.push({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: { "topology.kubernetes.io/zone": `zone-${"abc"[i % 3]}`, "kubernetes.io/hostname": name } },
      spec: i % 97 === 0 ? { unschedulable: true } : i % 41 === 0 ? { taints: [{ key: "dedicated", value: "gpu", effect: "NoSchedule" }] } : {},
      status: { allocatable: { cpu: "32", memory: "128Gi", pods: "110" } },
    });
  }
  const pod = (i, spec, resources) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `web-${i}`, namespace: `team-${i % 40}`, labels: { app: `app-${i % 400}` }, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { ...spec, containers: [{ name: "main", resources: { requests: resources } }] },
  });
  for (let i = 0; i < nPods; i++) {
    // The square makes some nodes fuller than others.
    const at = Math.floor(((i * 7919) % nNodes) ** 2 / nNodes);
    const node = i < nNodes ? i : at;
    items.push(pod(i, { nodeName: `node-${String(node).padStart(4, "0")}` }, { cpu: `${100 + (i % 7) * 50}m`, memory: `${128 + (i % 5) * 128}Mi` }));
  }
  for (let i = 0; i < nPending; i++) items.push(pod(nPods + i, {}, { cpu: i % 2 ? "64" : "1", memory: "1Gi" }));
  return { apiVersion: "v1", kind: "List", items };
}
