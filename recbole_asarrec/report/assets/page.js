"use strict";
// Everything shown comes from the JSON in #data and is set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const protocol = () => root.dataset.protocol;
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

function element(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}

// figures: drawn when they come into sight, again when the protocol, the theme or the width changes
const NARROW = 640;

function themed(layout, width) {
  const made = structuredClone(layout);
  const ink = colour("--ink"), grid = colour("--grid");
  made.paper_bgcolor = made.plot_bgcolor = "rgba(0,0,0,0)";
  made.font = { color: ink, family: getComputedStyle(document.body).fontFamily, size: 12 };
  made.modebar = { bgcolor: "rgba(0,0,0,0)", color: grid, activecolor: colour("--soft") };
  made.hoverlabel = { bgcolor: colour("--card"), font: { color: ink } };
  for (const name of Object.keys(made)) {
    if (/^[xy]axis\d*$/.test(name)) {
      Object.assign(made[name], { gridcolor: grid, zerolinecolor: colour("--soft"), linecolor: grid });
    }
  }
  const panels = made.grid.rows * made.grid.columns;
  if (width < NARROW && made.grid.columns > 1) {
    const each = (made.height - 90) / made.grid.rows;
    made.grid = { ...made.grid, rows: panels, columns: 1 };
    made.height = Math.min(each, 380) * panels + 90;
    made.legend.y = -0.26 / panels;
  }
  return made;
}

function draw(place) {
  const spec = data.figures[place.dataset.figure][protocol()];
  if (!spec) {
    Plotly.purge(place);
    place.textContent = "No run was tested by this protocol.";
    return;
  }
  const config = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "resetScale2d"]] };
  Plotly.react(place, structuredClone(spec.data), themed(spec.layout, place.clientWidth), config);
  place.style.minHeight = 0;
  place.dataset.drawn = protocol();
}

const drawn = new Set();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !drawn.has(target)) {
      drawn.add(target);
      draw(target);
    }
  }
}, { rootMargin: "400px" });
document.querySelectorAll(".plot").forEach((place) => seen.observe(place));
const redraw = () => drawn.forEach(draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.matchMedia(`(max-width: ${NARROW}px)`).addEventListener("change", redraw);
window.addEventListener("beforeprint", () => document.querySelectorAll(".plot").forEach(draw));

document.querySelectorAll("input[name=protocol]").forEach((choice) =>
  choice.addEventListener("change", () => {
    root.dataset.protocol = choice.value;
    redraw();
  }));

// tables
const sortable = (cell) => (cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value));

function sort(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const numbers = table.tBodies[0].rows[0]?.cells[column].dataset.value !== undefined;
  const before = heads[column].getAttribute("aria-sort");
  const down = before ? before === "ascending" : numbers;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => {
    const [a, b] = [sortable(one.cells[column]), sortable(other.cells[column])];
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

document.querySelectorAll("table.sortable").forEach((table) =>
  [...table.tHead.rows[0].cells].forEach((head, column) =>
    head.querySelector("button").addEventListener("click", () => sort(table, column))));

// the YAML that makes a row
const dialog = document.getElementById("yaml");
const yaml = document.getElementById("yaml-text");
const copy = document.getElementById("yaml-copy");
document.querySelectorAll("button.yaml").forEach((button) =>
  button.addEventListener("click", () => {
    const row = data.rows[Number(button.closest("tr").dataset.row)];
    document.getElementById("yaml-title").textContent = row.method;
    yaml.textContent = row.yaml;
    copy.textContent = "Copy";
    dialog.showModal();
  }));
document.getElementById("yaml-close").addEventListener("click", () => dialog.close());
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(yaml.textContent);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(yaml);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
});

// the case explorer
const methods = document.getElementById("case-method");
const users = document.getElementById("case-user");
const stage = document.getElementById("case");

function chip(run, told, index, kind) {
  const token = told.items[index];
  const made = element("li", `chip ${kind}`, run.titles[token] ?? token);
  const noise = (told.noise ?? []).includes(index);
  if (noise) made.classList.add("noise");
  made.title = `${token}: ${kind}${noise ? ", noise" : ""}`;
  return made;
}

function strip(what, chips) {
  const made = element("div", "strip");
  const line = element("div", "what");
  line.append(...what);
  const list = element("ol", "chips");
  list.append(...chips);
  made.append(line, list);
  return made;
}

function meter(score, floor) {
  const made = element("span", "meter");
  const bar = element("i"), mark = element("b");
  bar.style.width = `${100 * Math.min(score, 1)}%`;
  mark.style.left = `${100 * floor}%`;
  made.append(bar, mark);
  return made;
}

function viewStrip(run, told, view, number) {
  const gone = [...view.dropped];
  const chips = [];
  view.source.forEach((index, place) => {
    // a dropped item is shown before the first kept item that is newer
    while (view.kinds[place] === "kept" && gone.length && gone[0] < index) {
      chips.push(chip(run, told, gone.shift(), "dropped"));
    }
    chips.push(chip(run, told, index, view.kinds[place]));
  });
  gone.forEach((index) => chips.push(chip(run, told, index, "dropped")));
  const score = `NDCG ${view.ndcg.toFixed(4)} ${view.ndcg >= told.floor ? "≥" : "<"} NDCG* ${told.floor.toFixed(4)}`;
  return strip([element("span", "", `View ${number}`), meter(view.ndcg, told.floor), element("span", "score", score)], chips);
}

function history(run, told) {
  const chips = told.items.map((_, index) => chip(run, told, index, index < told.length ? "kept" : "candidate"));
  const extra = told.items.length - told.length;
  const next = run.titles[told.next] ?? told.next;
  const text = `History of ${told.length} items, oldest first` + (extra ? `, and ${extra} new ones (dotted)` : "");
  return strip([element("span", "", text), element("span", "", `· then: ${next}`)], chips);
}

function showCase() {
  const method = data.cases[methods.selectedIndex];
  stage.replaceChildren();
  for (const run of method.runs) {
    const told = run.cases.find((one) => one.user === users.value);
    if (!told) continue;
    const made = element("div", "run");
    made.append(element("h4", "", run.level), history(run, told));
    told.views.forEach((view, place) => made.append(viewStrip(run, told, view, place + 1)));
    stage.append(made);
  }
}

function showUsers() {
  const before = users.value;
  const names = new Set(data.cases[methods.selectedIndex].runs.flatMap((run) => run.cases.map((one) => one.user)));
  users.replaceChildren(...[...names].map((name) => new Option(name, name)));
  if (names.has(before)) users.value = before;
  showCase();
}

if (data.cases.length) {
  methods.replaceChildren(...data.cases.map((one) => new Option(one.name)));
  const learned = data.cases.findIndex((one) => one.name.endsWith("AsarRec"));
  methods.selectedIndex = Math.max(learned, 0);
  methods.addEventListener("change", showUsers);
  users.addEventListener("change", showCase);
  showUsers();
}

// where we are
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
const reading = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    links.get(target.id)?.classList.toggle("here", isIntersecting);
  }
}, { rootMargin: "-30% 0px -60% 0px" });
document.querySelectorAll("main > section").forEach((section) => reading.observe(section));
