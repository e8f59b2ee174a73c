"use strict";
(() => {
  const held = document.getElementById("timeline-data");
  const box = document.getElementById("lanes");
  if (!held || !box) return;
  const data = JSON.parse(held.textContent);
  const frame = document.getElementById("timeline");
  const readout = document.getElementById("tl-readout");
  const KINDS = ["prefill", "chunk", "decode", "verify", "event"];
  const TOP = 22, LANE = 20, FOOT = 20, NS = "http://www.w3.org/2000/svg";
  const total = Math.max(data.n, 1);
  const events = new Map(data.events);
  const calls = new Set(data.calls);
  let from = -0.5, to = total - 0.5, cursor = data.marks.length ? data.marks[0][0] : 0;
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("aria-hidden", "true");
  box.append(svg);

  const node = (name, attributes, text) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const label = (place) => {
    for (const [start, count, first] of data.steps) {
      if (place >= start && place < start + count) return first + place - start;
    }
    return place + 1;
  };
  const margin = () => (box.clientWidth < 520 ? 76 : 130);
  const width = () => Math.max(box.clientWidth - margin() - 8, 50);
  const x = (place) => margin() + ((place - from) / (to - from)) * width();

  const SHAPES = [
    (left, size, y) => `M${left} ${y + 2}h${size}v16h${-size}z`,
    (left, size, y) => `M${left} ${y + 5}h${size}v10h${-size}z`,
    (left, size, y) => `M${left} ${y + 8.5}h${size}v3h${-size}z`,
    (left, size, y) => `M${left} ${y + 4.5}h${size}v11h${-size}z`,
    (left, size, y) => `M${left + size / 2} ${y + 4}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`,
  ];

  const ends = new Map();
  function within(runs) {
    if (!ends.has(runs)) {
      ends.set(runs, runs.reduce((end, [start, stride, count]) => Math.max(end, start + stride * (count - 1)), 0));
    }
    return runs.length && runs[0][0] <= to && ends.get(runs) >= from;
  }

  function marksOf(runs, y, paths) {
    const per = width() / (to - from);
    for (const [start, stride, count, kind] of runs) {
      const first = Math.max(0, Math.ceil((from - 0.5 - start) / stride));
      const last = Math.min(count - 1, Math.floor((to + 0.5 - start) / stride));
      if (last < first) continue;
      const single = Math.max(per * (per > 6 ? 0.8 : 1), 1);
      if (stride * per < 3 && kind !== 4) {
        const left = x(start + first * stride - 0.5);
        paths[kind].push(SHAPES[kind](left.toFixed(1), Math.max(x(start + last * stride + 0.5) - left, 1).toFixed(1), y));
        continue;
      }
      let before = -9;
      for (let i = first; i <= last; i += 1) {
        const middle = x(start + i * stride);
        if (middle - before < 1) continue;
        before = middle;
        const size = Math.min(single, kind === 2 ? 1e9 : 46);
        paths[kind].push(SHAPES[kind](Number((middle - size / 2).toFixed(1)), Number(size.toFixed(1)), y));
      }
    }
  }

  function round(raw) {
    const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
    return Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || power * 10);
  }

  function ruler(height) {
    const wanted = Math.max(2, Math.floor(width() / 80));
    const step = round((to - from) / wanted);
    for (let place = Math.max(0, Math.ceil(from / step) * step); place <= Math.min(to, total - 1); place += step) {
      const anchor = x(place) > box.clientWidth - 30 ? "end" : "middle";
      svg.append(node("text", { x: Math.min(x(place), box.clientWidth), y: height - 5, "text-anchor": anchor }, label(place)));
    }
  }

  function draw() {
    const height = TOP + LANE * data.rows.length + FOOT;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${box.clientWidth} ${height}`);
    svg.setAttribute("height", height);
    const clip = node("clipPath", { id: "tl-clip" });
    clip.append(node("rect", { x: margin(), y: 0, width: width() + 8, height }));
    const inner = node("g", { "clip-path": "url(#tl-clip)" });
    svg.append(clip);
    const paths = KINDS.map(() => []);
    data.rows.forEach((row, index) => {
      const y = TOP + index * LANE;
      const here = row.filter(([, runs]) => within(runs));
      const name = here.length === 1 ? here[0][0] : here.length ? `${here.length} sequences` : "";
      const most = Math.floor((margin() - 10) / 6.8);
      const shown = name.length > most ? `${name.slice(0, most - 1)}…` : name;
      svg.append(node("line", { class: "base", x1: margin(), x2: margin() + width(), y1: y + 10, y2: y + 10 }));
      svg.append(node("text", { class: "name", x: 0, y: y + 14 }, shown));
      here.forEach(([, runs]) => marksOf(runs, y, paths));
    });
    [2, 1, 3, 0, 4].forEach((kind) => {
      if (paths[kind].length) inner.append(node("path", { class: KINDS[kind], d: paths[kind].join("") }));
    });
    let taken = -99;
    data.marks.forEach(([place, severity, sign, said, number]) => {
      if (place < from || place > to || x(place) - taken < 9) return;
      taken = x(place);
      const mark = node("text", { class: `mark ${severity}`, x: taken, y: 15, "text-anchor": "middle" }, sign);
      mark.append(node("title", {}, said));
      mark.addEventListener("click", () => document.getElementById(`finding-${number}`)?.scrollIntoView());
      inner.append(mark);
    });
    inner.append(node("line", { class: "cursor", x1: x(cursor), x2: x(cursor), y1: 18, y2: height - FOOT }));
    svg.append(inner);
    ruler(height);
    tell();
    follow();
  }

  function phases(place) {
    const found = [];
    for (const [name, runs] of data.rows.flat()) {
      for (const [start, stride, count, kind] of runs) {
        const index = (place - start) / stride;
        if (index < 0 || index >= count || !Number.isInteger(index)) continue;
        found.push(`${kind === 4 ? events.get(place) || "event" : KINDS[kind]} ${name}`);
        break;
      }
      if (found.length > 3) break;
    }
    return found.join(", ");
  }

  function tell() {
    const here = data.marks.filter((mark) => mark[0] === cursor).map((mark) => mark[3].split(",")[0]);
    const drawn = calls.has(cursor) && window.mlxdiagShowCall ? " · Enter shows its mask" : "";
    readout.textContent = [`step ${label(cursor)}: ${phases(cursor) || "between steps"}`, ...here].join(" · ") + drawn;
  }

  const whole = () => to - from >= total;
  const seen = () => [from, to];
  function follow() {
    document.querySelectorAll(".seriesplot").forEach((plot) => {
      if (!plot.clientWidth) return;
      const picture = plot.querySelector("svg");
      const [low, y, size, tall] = picture.getAttribute("viewBox").split(" ");
      if (!plot.dataset.own) plot.dataset.own = `${low} ${Number(low) + Number(size)}`;
      const [from, to] = whole() ? plot.dataset.own.split(" ").map(Number) : seen();
      picture.setAttribute("viewBox", `${from} ${y} ${to - from} ${tall}`);
      const row = plot.querySelector(".xs"), area = plot.querySelector(".box");
      const wanted = Math.max(2, Math.floor(area.clientWidth / 90));
      const step = round((to - from) / wanted);
      row.replaceChildren();
      area.querySelectorAll(".gx").forEach((line) => line.remove());
      for (let place = Math.max(0, Math.ceil(from / step) * step); place <= Math.min(to, total - 1); place += step) {
        const left = `${(100 * (place - from)) / (to - from)}%`;
        const tick = document.createElement("span"), line = document.createElement("i");
        tick.textContent = label(place);
        tick.style.left = left;
        line.className = "gx";
        line.style.left = left;
        row.append(tick);
        area.prepend(line);
      }
    });
  }

  function view(low, high) {
    const size = Math.min(Math.max(high - low, Math.min(8, total)), total);
    from = Math.min(Math.max(low, -0.5), total - 0.5 - size);
    to = from + size;
    schedule();
  }
  let waiting = false;
  function schedule() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }
  function zoom(factor, around = cursor) {
    const size = (to - from) * factor;
    view(around - (around - from) * factor, around - (around - from) * factor + size);
  }
  function go(place) {
    cursor = Math.min(Math.max(place, 0), total - 1);
    const size = to - from;
    if (cursor < from || cursor > to) view(cursor - size / 2, cursor + size / 2); else schedule();
  }
  function finding(direction) {
    const places = [...new Set(data.marks.map((mark) => mark[0]))].sort((a, b) => a - b);
    const next = direction > 0 ? places.find((p) => p > cursor) : places.reverse().find((p) => p < cursor);
    if (next !== undefined) go(next);
  }
  const acts = {
    "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), "zoom-all": () => view(-0.5, total - 0.5),
    back: () => go(cursor - 1), on: () => go(cursor + 1), previous: () => finding(-1), next: () => finding(1),
  };
  for (const [name, act] of Object.entries(acts)) document.getElementById(`tl-${name}`).addEventListener("click", act);
  const keys = {
    "+": acts["zoom-in"], "=": acts["zoom-in"], "-": acts["zoom-out"], 0: acts["zoom-all"], ArrowLeft: acts.back,
    ArrowRight: acts.on, n: acts.next, p: acts.previous, Home: () => go(0), End: () => go(total - 1),
    PageUp: () => go(Math.round(cursor - (to - from) / 4)), PageDown: () => go(Math.round(cursor + (to - from) / 4)),
    Enter: () => window.mlxdiagShowCall && window.mlxdiagShowCall(cursor),
  };
  frame.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  const placeAt = (event) => from + ((event.clientX - svg.getBoundingClientRect().left - margin()) / width()) * (to - from);
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, placeAt(event));
  }, { passive: false });
  let grip = null;
  frame.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, from, to, moved: false };
  });
  frame.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const by = ((event.clientX - grip.x) / width()) * (grip.to - grip.from);
    if (Math.abs(event.clientX - grip.x) > 4) grip.moved = true;
    if (grip.moved) view(grip.from - by, grip.to - by);
  });
  window.addEventListener("pointerup", (event) => {
    if (grip && !grip.moved && event.target.closest("#lanes") && !event.target.closest(".mark")) go(Math.round(placeAt(event)));
    grip = null;
  });
  new ResizeObserver(schedule).observe(box);
  document.addEventListener("toggle", schedule, true);
  window.addEventListener("beforeprint", draw);
  draw();
})();
