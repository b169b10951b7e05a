// The view of what a shadow has found. The program that is tested here serves files, which no scheduler is compared with, so the
// report comes from shadow.json. A test of the program holds that file, as its own reports, to the description of the API.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { example, launch, open, overflow, picture, serve, view } from "./harness.mjs";

let browser;
let server;
const report = JSON.parse(await readFile(new URL("shadow.json", import.meta.url), "utf8"));
before(async () => {
  browser = await launch();
  server = await serve("-f", example);
});
after(async () => {
  await browser?.close();
  server?.stop();
});

const text = (page, selector = "main") => page.locator(selector).first().innerText();

// Opens the view with this report. `asked` has the parameters of each question.
async function shadow(answer, options) {
  const opened = await open(browser, server.url, options);
  const { page } = opened;
  const asked = [];
  await page.route("**/api/v1/overview", async (route) => {
    const overview = await (await route.fetch()).json();
    return route.fulfill({ json: { ...overview, views: { ...overview.views, live: true, shadow: true } } });
  });
  await page.route("**/api/v1/shadow*", (route) => {
    const parameters = new URL(route.request().url()).searchParams;
    asked.push(Object.fromEntries(parameters));
    return route.fulfill({ json: answer(parameters) });
  });
  await page.reload();
  await page.waitForSelector("nav a:has-text('Shadow')");
  return { ...opened, asked };
}

// As the server does it.
const part = (parameters) => {
  const kinds = parameters.get("kind")?.split(",") ?? [];
  const found = report.disagreements.filter(({ kind }) => !kinds.length || kinds.includes(kind));
  return { ...report, disagreements: found, total: found.length };
};

test("it shows how many agree, what makes others worse, and each disagreement with its reason", async () => {
  const { page, faults, close } = await shadow(part);
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForSelector(".disagreement");
  const seen = await text(page);
  for (const word of [
    "Shadow of default-scheduler",
    // 1,148 of 1,199: rounded down.
    "95.7% of 1,200 pods agree with scheduler.yaml, as release 1.37 decides",
    "same node",
    "pending although it fits",
    "17 of the agreements need",
    "PodTopologySpread",
    "node(s) had untolerated taint {gpu: yes}",
    "node-4 has 12 points less than node-2",
    "7 earlier ones are not listed any more",
    "2 disagreements are about pods that you may not list",
    "5 pods were first seen on a node",
    "How far this can be trusted",
  ])
    assert.ok(seen.includes(word), `${word}: ${seen}`);
  await picture(page, "shadow");
  await page.click(".disagreement summary");
  const details = await text(page, ".disagreement details");
  for (const word of ["12 points", "ImageLocality", "-1", "plimsoll explain -f differ/0055-shop-web-1.json.gz"]) assert.ok(details.includes(word), `${word}: ${details}`);
  assert.deepEqual(faults, []);
  await close();
});

test("it compares the cluster as it is with the one that our decisions would have made", async () => {
  const { page, faults, close } = await shadow(part);
  await view(page, "#/shadow", ".disagreement");
  const row = async (name) => (await page.locator(`tr:has(th:has-text("${name}")) td`).allInnerTexts()).map((cell) => cell.trim());
  assert.deepEqual(await row("pods in zone-a"), ["700", "401"]);
  assert.deepEqual(await row("cpu of a node"), ["0% / 63% / 100%", "50% / 61% / 70%"]);
  assert.deepEqual(await row("nodes without a pod"), ["2", "0"]);
  assert.match(await text(page), /placed 1,203 pods, 811 of them on another node/);
  assert.deepEqual(faults, []);
  await close();
  const without = ({ ourCluster: _, betweenConfigurations: __, ...rest }) => rest;
  const other = await shadow((parameters) => without(part(parameters)));
  await view(other.page, "#/shadow", ".disagreement");
  assert.doesNotMatch(await text(other.page), /Ours|Between the configurations/);
  assert.deepEqual(other.faults, []);
  await other.close();
});

test("disagreements are chosen by kind and by name", async () => {
  const { page, faults, asked, close } = await shadow(part);
  await view(page, "#/shadow", ".disagreement");
  assert.deepEqual(asked[0], { limit: "50" });
  await page.selectOption(".filters select", "infeasible");
  await page.waitForFunction(() => document.querySelectorAll(".disagreement").length === 1);
  assert.match(await text(page, ".disagreement"), /TaintToleration rejects node-0/);
  await page.fill(".filters input", "node-0");
  await page.waitForFunction(() => document.querySelector(".filters input").value === "node-0");
  for (let i = 0; i < 100 && asked.at(-1).search !== "node-0"; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(asked.at(-1), { kind: "infeasible", search: "node-0", limit: "50" });
  assert.equal(await page.inputValue(".filters input"), "node-0", "the field keeps what was written while an answer is awaited");
  assert.deepEqual(faults, []);
  await close();
});

test("before the cluster is known, it says so", async () => {
  const pods = Object.fromEntries(Object.keys(report.configurations[0].pods).map((field) => [field, 0]));
  const { medianMargin: _, maxMargin: __, ...first } = report.configurations[0];
  const nothing = { ...report, began: null, seconds: 0, configurations: [{ ...first, pods, worseBy: [], infeasibleBy: [] }], disagreements: [], total: 0, disagreementsDropped: 0, withheld: 0, utilisation: {} };
  const { page, faults, close } = await shadow(() => nothing);
  await view(page, "#/shadow", "main h1");
  await page.waitForFunction(() => /Nothing is compared yet/.test(document.querySelector("main").innerText));
  assert.match(await text(page), /0 disagreements/);
  assert.deepEqual(faults, []);
  await close();
});

test("hostile names are texts, and fit on a phone", async () => {
  const markup = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  const names = [markup, "x".repeat(253), "\u202eevil\u202c"];
  const first = report.configurations[0];
  const hostile = {
    ...report,
    schedulerNames: names,
    configurations: names.map((name) => ({
      ...first,
      name,
      release: name,
      worseBy: [{ plugin: name, pods: 1, meanPoints: 1 }],
      infeasibleBy: [{ plugin: name, reason: name, pods: 1 }],
    })),
    betweenConfigurations: { ...report.betweenConfigurations, examples: names.map((name) => ({ pod: `${name}/${name}`, at: name, first: [name], second: names })) },
    utilisation: Object.fromEntries(names.map((name) => [name, 0.5])),
    balance: { ...report.balance, podsByZone: Object.fromEntries(names.map((name) => [name, 1])) },
    limits: names,
    disagreements: names.map((name, i) => ({
      ...report.disagreements[0],
      number: i + 1,
      pod: `${name}/${name}`,
      kind: i ? "worse" : name,
      configuration: name,
      theirs: name,
      ours: names,
      points: [{ plugin: name, points: 1 }],
      why: name,
      reproduction: { file: name, command: name },
    })),
  };
  for (const options of [{}, { viewport: { width: 390, height: 844 }, hasTouch: true }]) {
    const { page, faults, close } = await shadow(() => hostile, options);
    await view(page, "#/shadow", ".disagreement");
    for (const summary of await page.locator("main summary").all()) await summary.click();
    assert.equal(await page.locator("main img, main script").count(), 0);
    assert.ok((await page.evaluate(() => document.querySelector("main").textContent)).includes("\\u202e"), "what turns text round is seen");
    assert.ok((await overflow(page)) <= 0, "nothing is wider than the window");
    assert.deepEqual(faults, []);
    await close();
  }
});
