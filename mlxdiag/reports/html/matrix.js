"use strict";
(() => {
  const held = document.getElementById("matrix-data");
  if (!held) return;
  const data = JSON.parse(held.textContent);
  const table = document.getElementById("m-table");
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const find = (name) => document.getElementById(name);
  const family = find("m-family"), scenario = find("m-scenario"), result = find("m-result"), wrong = find("m-wrong");
  const dialog = find("evidence");

  function filter() {
    const name = family.value.trim().toLowerCase(), path = scenario.value.trim().toLowerCase();
    const columns = heads.map((head) => !path || head.dataset.scenario.toLowerCase().includes(path));
    heads.forEach((head, i) => { head.hidden = !columns[i]; });
    let shown = 0;
    rows.forEach((row, i) => {
      const cells = data.rows[i][1];
      const fits = Object.entries(cells).some(([c, cell]) => columns[c] && (!result.value || cell.result === result.value));
      row.hidden = !fits || (wrong.checked && !row.dataset.wrong) || !row.cells[0].textContent.toLowerCase().includes(name);
      if (row.hidden) return;
      shown += 1;
      columns.forEach((on, c) => {
        const cell = row.cells[c + 1];
        cell.hidden = !on;
        const button = cell.firstElementChild;
        if (button) button.style.opacity = !result.value || (cells[c] && cells[c].result === result.value) ? "" : ".25";
      });
    });
    find("m-count").textContent = `${shown} of ${rows.length} families`;
    rove();
  }

  const buttons = (row) => [...row.querySelectorAll("button")].filter((one) => !one.parentElement.hidden);
  function rove(to) {
    const visible = rows.filter((row) => !row.hidden);
    const target = to || (visible.length && buttons(visible[0])[0]);
    table.querySelectorAll('button[tabindex="0"]').forEach((one) => { one.tabIndex = -1; });
    if (target) target.tabIndex = 0;
  }
  table.addEventListener("keydown", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const visible = rows.filter((row) => !row.hidden);
    let y = visible.indexOf(button.closest("tr")), x = buttons(visible[y]).indexOf(button);
    const moves = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
      Home: [-1e6, 0], End: [1e6, 0], PageUp: [0, -10], PageDown: [0, 10],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    y = Math.min(Math.max(y + move[1], 0), visible.length - 1);
    const line = buttons(visible[y]);
    x = Math.min(Math.max(x + move[0], 0), line.length - 1);
    rove(line[x]);
    line[x].focus();
  });

  const words = (value) => {
    if (Array.isArray(value)) return value.map(words).join(", ") || "none";
    if (value && typeof value === "object") return Object.entries(value).map(([k, v]) => `${k.replaceAll("_", " ")} ${words(v)}`).join("; ");
    if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
    return String(value);
  };
  function open(button) {
    const row = rows.indexOf(button.closest("tr")), column = Number(button.dataset.c);
    const [name, cells] = data.rows[row];
    const cell = cells[column];
    find("e-title").textContent = `${name} · ${data.scenarios[column]}`;
    find("e-result").textContent = `${cell.result}. ${data.titles[column]}`;
    const facts = find("e-facts");
    facts.replaceChildren();
    for (const key of ["reason", "codes", "oracles", "where", "excuse", "judged", "evidence"]) {
      if (!(key in cell)) continue;
      const pair = document.createElement("div"), term = document.createElement("dt"), said = document.createElement("dd");
      term.textContent = key;
      said.textContent = key === "reason" ? data.texts[cell.reason] : words(cell[key]);
      pair.append(term, said);
      facts.append(pair);
    }
    const trace = find("e-trace");
    trace.textContent = "trace" in cell ? data.texts[cell.trace] : "";
    trace.hidden = find("e-head").hidden = !("trace" in cell);
    rove(button);
    dialog.showModal();
  }
  table.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) open(button);
  });
  find("e-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  [family, scenario].forEach((one) => one.addEventListener("input", filter));
  [result, wrong].forEach((one) => one.addEventListener("change", filter));
  filter();
})();
