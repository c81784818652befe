"use strict";
(() => {
  // Each episode is [row, class, from, to, title, subject, reason, file, line, text, count, id, state];
  // texts are numbers of data.texts, times milliseconds after data.from. An episode that
  // has not ended has a negative end: the time until which it was observed.
  const data = JSON.parse(document.getElementById("data").textContent);
  const [ROW, CLASS, FROM, TO, TITLE, SUBJECT, REASON, FILE, LINE, TEXT, COUNT, ID, STATE] = Array(13).keys();
  const whole = data.to - data.from;
  const MIN_SPAN = 10;
  const HEIGHT = 20, HEAD = 26, LABELS = 320;
  const MAX_TABLE_ROWS = 500, MAX_BAR_TEXTS = 300;
  const svgOf = (name, attributes = {}, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  };
  const byId = (id) => document.getElementById(id);
  const chart = byId("chart");
  const end = (episode) => Math.abs(episode[TO]);

  // Lines of the chart: headings and rows.
  const lines = [];
  const lineOfRow = [];
  data.rows.forEach((row, number) => {
    if (number === 0 || data.rows[number - 1].section !== row.section) lines.push({ heading: row.section });
    lineOfRow[number] = lines.length;
    lines.push({ row: number, label: row.label, episodes: [] });
  });
  data.episodes.forEach((episode, index) => lines[lineOfRow[episode[ROW]]].episodes.push(index));
  const height = HEAD + lines.length * HEIGHT + 6;

  let from = 0, to = whole, width = 1200;
  let pointed = null, pinned = null, svg = null;

  const pad = (number, digits = 2) => String(number).padStart(digits, "0");
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const day = (date) => date.getUTCDate() + " " + MONTHS[date.getUTCMonth()];
  const clock = (offset, digits) => {
    const date = new Date(data.from + offset);
    const text = pad(date.getUTCHours()) + ":" + pad(date.getUTCMinutes());
    if (digits === 0) return text;
    const seconds = text + ":" + pad(date.getUTCSeconds());
    return digits > 1 ? seconds + "." + pad(date.getUTCMilliseconds(), 3) : seconds;
  };
  const dated = (offset) => day(new Date(data.from + offset)) + " " + clock(offset, 2);
  const lasted = (episode) => {
    if (episode[TO] < 0) return "no end seen";
    const millis = episode[TO] - episode[FROM];
    if (millis <= 1) return "";
    if (millis < 1000) return millis + "ms";
    const seconds = Math.floor(millis / 1000), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    if (hours) return hours + "h" + minutes % 60 + "m" + seconds % 60 + "s";
    return minutes ? minutes + "m" + seconds % 60 + "s" : (millis / 1000).toFixed(1) + "s";
  };

  const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800, 2592000, 7776000, 31536000];
  const marks = () => {
    const max = Math.max(2, Math.floor((width - LABELS) / 140));
    const step = (STEPS.find((seconds) => (to - from) / 1000 / seconds <= max) || 31536000) * 1000;
    const found = [];
    for (let time = Math.ceil((data.from + from) / step) * step; time <= data.from + to; time += step) {
      const offset = time - data.from, date = new Date(time);
      const midnight = time % 86400000 === 0;
      const year = step >= 2592000000 ? " " + date.getUTCFullYear() : "";
      found.push([offset, midnight ? day(date) + year : clock(offset, step >= 60000 ? 0 : step >= 1000 ? 1 : 2)]);
    }
    return found;
  };
  const x = (offset) => LABELS + (offset - from) / (to - from) * (width - LABELS - 8);
  const extent = (episode) => {
    const left = Math.max(x(episode[FROM]), LABELS), right = Math.min(x(end(episode)), width - 8);
    return [left, Math.max(right - left, 2)];
  };
  const offsetAt = (pixel) => from + (pixel - LABELS) / (width - LABELS - 8) * (to - from);

  const cut = (text, max) => {
    const characters = [...text];
    return characters.length > max ? "…" + characters.slice(characters.length - max + 1).join("") : text;
  };

  function draw() {
    width = Math.max(700, chart.clientWidth || 1200);
    svg = svgOf("svg", { viewBox: "0 0 " + width + " " + height, class: "pleg", "aria-hidden": "true" });
    for (const [offset, text] of marks()) {
      const at = x(offset).toFixed(1);
      svgOf("line", { class: "mark", x1: at, x2: at, y1: HEAD - 4, y2: height }, svg);
      svgOf("text", { class: "quiet", x: Math.min(x(offset) + 3, width - 2 - 7 * text.length), y: 16 }, svg).textContent = text;
    }
    let texts = 0;
    lines.forEach((line, number) => {
      const y = HEAD + number * HEIGHT;
      const text = svgOf("text", { class: line.heading ? "section" : "label", x: line.heading ? 8 : 18, y: y + 14 }, svg);
      text.textContent = line.heading || cut(line.label, 44);
      if (line.heading) return;
      svgOf("title", {}, text).textContent = line.label;
      // One path for all bars of a colour, because elements cost time. A bar on the same pixels as the
      // bar before is merged with it.
      const paths = new Map(), reach = new Map();
      for (const index of line.episodes) {
        const episode = data.episodes[index];
        if (end(episode) < from || episode[FROM] > to) continue;
        const [left, size] = extent(episode), kind = episode[CLASS] + (episode[TO] < 0 ? " open" : "");
        if (left + size <= (reach.get(kind) ?? -1) + 0.5) continue;
        reach.set(kind, left + size);
        paths.set(kind, (paths.get(kind) ?? "") + "M" + left.toFixed(1) + " " + (y + 3) + "h" + size.toFixed(1) + "v" + (HEIGHT - 6) + "h" + (-size).toFixed(1) + "z");
      }
      for (const [kind, path] of paths) svgOf("path", { class: "bar " + kind, d: path }, svg);
      // The state within each bar that has room for it.
      let written = 0;
      for (const index of line.episodes) {
        const episode = data.episodes[index];
        if (!episode[STATE] || texts >= MAX_BAR_TEXTS || end(episode) < from || episode[FROM] > to) continue;
        const [left, size] = extent(episode), state = data.texts[episode[STATE]];
        const both = episode[TO] < 0 ? state : (state + " " + lasted(episode)).trim();
        const fitting = [both, state].find((text) => 6.3 * text.length + 10 <= size);
        if (fitting === undefined || left < written) continue;
        written = left + size;
        texts += 1;
        svgOf("text", { class: "inside", x: left + 5, y: y + 14 }, svg).textContent = fitting;
      }
    });
    chart.replaceChildren(svg);
    mark();
    byId("range").textContent = dated(from) + " to " + dated(to);
    fill();
  }

  // Frames the episode under the pointer and the pinned one.
  function mark() {
    for (const frame of svg.querySelectorAll(".on")) frame.remove();
    for (const index of new Set([pointed, pinned])) {
      if (index === null) continue;
      const episode = data.episodes[index];
      if (end(episode) < from || episode[FROM] > to) continue;
      const [left, size] = extent(episode), y = HEAD + lineOfRow[episode[ROW]] * HEIGHT;
      svgOf("rect", { class: "on", x: left - 1, y: y + 2, width: size + 2, height: HEIGHT - 4 }, svg);
    }
  }

  const line = (text, className) => {
    const element = document.createElement("p");
    if (className) element.className = className;
    element.textContent = text;
    return element;
  };

  function showDetail(index) {
    const detail = byId("detail");
    detail.classList.toggle("pinned", pinned !== null);
    if (index === null) return;
    const episode = data.episodes[index], text = (field) => data.texts[episode[field]];
    const subject = text(SUBJECT) ? " · " + text(SUBJECT) : "";
    const id = text(ID) && text(ID) !== text(SUBJECT) ? " · " + text(ID) : "";
    const time = lasted(episode);
    const until = (episode[TO] < 0 ? " to at least " : " to ") + clock(end(episode), 2);
    const span = dated(episode[FROM]) + (episode[TO] && time ? until : "") + (time ? " (" + time + ")" : "");
    const parts = [line(text(TITLE) + subject + id), line(span, "quiet"), line(text(REASON))];
    if (text(FILE)) {
      const place = text(FILE) + (episode[LINE] ? ":" + episode[LINE] : "") + (episode[COUNT] > 1 ? " and " + (episode[COUNT] - 1) + " more" : "");
      parts.push(line(place, "quiet"));
    }
    if (text(TEXT)) {
      const code = document.createElement("code");
      code.textContent = text(TEXT);
      parts.push(code);
    }
    const steps = data.remedies[text(TITLE)] || [];
    if (steps.length) parts.push(line("What to do: " + steps[0]), ...steps.slice(1).map((step) => line(step)));
    detail.replaceChildren(...parts);
  }

  function point(index) {
    if (index === pointed) return;
    pointed = index;
    mark();
    if (pinned === null) showDetail(index);
  }
  function pin(index) {
    pinned = index;
    pointed = index;
    mark();
    showDetail(index);
  }

  // The episodes of the range as a table, for readers who cannot see the chart.
  function fill() {
    const shown = [];
    data.episodes.forEach((episode, index) => { if (end(episode) >= from && episode[FROM] <= to) shown.push(index); });
    byId("count").textContent = shown.length;
    if (!byId("list").open) return;
    const rows = shown.slice(0, MAX_TABLE_ROWS).map((index) => {
      const episode = data.episodes[index], text = (field) => data.texts[episode[field]];
      const row = document.createElement("tr");
      row.tabIndex = 0;
      const place = text(FILE) + (episode[LINE] ? ":" + episode[LINE] : "");
      for (const cell of [dated(episode[FROM]), lasted(episode), text(TITLE), text(SUBJECT), text(REASON), place]) {
        row.append(Object.assign(document.createElement("td"), { textContent: cell }));
      }
      row.addEventListener("click", () => pin(index));
      row.addEventListener("keydown", (event) => { if (event.key === "Enter") pin(index); });
      return row;
    });
    byId("table").replaceChildren(...rows);
    const more = shown.length - rows.length;
    byId("more").textContent = more > 0 ? "and " + more + " more: zoom in to see them" : "";
  }

  function show(newFrom, newTo, { remember = true } = {}) {
    const size = Math.min(Math.max(newTo - newFrom, MIN_SPAN), whole);
    from = Math.min(Math.max(newFrom, 0), whole - size);
    to = from + size;
    draw();
    if (remember) {
      const hash = from === 0 && to === whole ? "" : "#" + Math.round(data.from + from) + "-" + Math.round(data.from + to);
      history.replaceState(null, "", location.pathname + location.search + hash);
    }
  }
  const zoom = (factor, around = (from + to) / 2) => show(around - (around - from) * factor, around + (to - around) * factor);
  const move = (part) => show(from + (to - from) * part, to + (to - from) * part);

  // The range of the address: #from-to in milliseconds since 1970.
  function read() {
    const found = /^#(\d+)-(\d+)$/.exec(location.hash);
    if (found && Number(found[2]) > Number(found[1])) show(found[1] - data.from, found[2] - data.from, { remember: false });
    else show(0, whole, { remember: false });
  }

  const at = (event) => {
    const box = svg.getBoundingClientRect(), scale = width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  // The episode under the pointer, or the nearest one of its row.
  function under(event) {
    const [left, top] = at(event);
    const line = lines[Math.floor((top - HEAD) / HEIGHT)];
    if (!line || line.heading || left < LABELS) return null;
    const time = offsetAt(left), near = 6 / (width - LABELS) * (to - from);
    let best = null, distance = near;
    for (const index of line.episodes) {
      const episode = data.episodes[index];
      if (episode[FROM] - near > time) break;
      const away = Math.max(episode[FROM] - time, time - end(episode), 0);
      if (away < distance || away === 0) { best = index; distance = away; }
    }
    return best;
  }
  let dragged = null;
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [left, top] = at(event);
    if (left < LABELS) return;
    dragged = { left, top, band: null };
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    if (!dragged) return point(under(event));
    const [left] = at(event);
    if (Math.abs(left - dragged.left) < 4 && !dragged.band) return;
    dragged.band = dragged.band || svgOf("rect", { class: "drag", y: HEAD, height: height - HEAD }, svg);
    dragged.band.setAttribute("x", Math.min(left, dragged.left));
    dragged.band.setAttribute("width", Math.abs(left - dragged.left));
  });
  chart.addEventListener("pointerup", (event) => {
    if (!dragged) return;
    const [left] = at(event), was = dragged;
    dragged = null;
    if (!was.band) return pin(under(event));
    show(Math.min(offsetAt(left), offsetAt(was.left)), Math.max(offsetAt(left), offsetAt(was.left)));
  });
  chart.addEventListener("pointercancel", () => { dragged = null; draw(); });
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, offsetAt(at(event)[0]));
  }, { passive: false });

  // The next or previous episode from top to bottom, and within a row by time.
  const order = lines.flatMap((line) => line.episodes || []);
  function step(by) {
    const now = pointed === null ? pinned : pointed;
    const place = now === null ? (by > 0 ? -1 : order.length) : order.indexOf(now);
    const next = order[place + by];
    if (next === undefined) return;
    const episode = data.episodes[next];
    if (end(episode) < from || episode[FROM] > to) show(episode[FROM] - (to - from) / 2, episode[FROM] + (to - from) / 2);
    pointed = next;
    if (pinned !== null) pinned = next;
    mark();
    showDetail(next);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, summary, table")) return;
    const keys = {
      ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, whole),
      j: () => step(1), k: () => step(-1), Enter: () => pin(pointed), Escape: () => pin(null),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  byId("earlier").onclick = () => move(-0.25);
  byId("later").onclick = () => move(0.25);
  byId("closer").onclick = () => zoom(0.5);
  byId("wider").onclick = () => zoom(2);
  byId("all").onclick = () => show(0, whole);
  byId("list").addEventListener("toggle", fill);
  addEventListener("hashchange", read);
  let waits = null;
  addEventListener("resize", () => { cancelAnimationFrame(waits); waits = requestAnimationFrame(draw); });
  read();
})();
