(() => {
  const chart = document.getElementById("chart"), detail = document.getElementById("detail");
  const bars = () => [...chart.querySelectorAll("path.bar")];
  const middle = (bar) => { const box = bar.getBoundingClientRect(); return { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }; };
  const pointer = (type, place) => chart.dispatchEvent(new PointerEvent(type, { ...place, button: 0, pointerId: 1, bubbles: true }));
  chart.setPointerCapture = () => {};
  const press = (key) => chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const seen = { labels: [...chart.querySelectorAll("text.label")].map((text) => text.firstChild.textContent), bars: bars().length, open: chart.querySelectorAll("path.open").length };
  seen.inside = [...chart.querySelectorAll("text.inside")].map((text) => text.textContent);
  seen.keys = document.querySelectorAll(".legend .key").length;
  const edge = chart.getBoundingClientRect();
  seen.ticksInside = [...chart.querySelectorAll("text.quiet")].every((text) => text.getBoundingClientRect().right <= edge.right);
  const first = bars()[0];
  pointer("pointermove", middle(first));
  seen.pointed = detail.textContent;
  pointer("pointerdown", middle(first));
  pointer("pointerup", middle(first));
  seen.pinnedByClick = detail.classList.contains("pinned") && chart.querySelectorAll("rect.on").length === 1;
  press("Escape");
  seen.releasedByEscape = !detail.classList.contains("pinned");
  press("j");
  press("j");
  seen.secondByKey = detail.textContent.includes("onerror");
  for (let presses = 0; presses < 6 && !detail.textContent.includes("container-status-lock"); presses++) press("j");
  seen.remedyByKey = detail.textContent.includes("resume the shim");
  press("+");
  seen.zoomedHash = /^#\d{13}-\d{13}$/.test(location.hash);
  press("0");
  seen.hashOfEverything = location.hash;
  location.hash = "#1714997600000-1714997700000";
  setTimeout(() => {
    seen.rangeOfHash = document.getElementById("range").textContent;
    document.getElementById("list").open = true;
    setTimeout(() => {
      seen.tableRows = document.querySelectorAll("#table tr").length;
      seen.errors = seenErrors;
      seen.hacked = "hacked" in window;
      // The data, the page's script, and the two of the test.
      seen.scripts = document.scripts.length;
      seen.scriptsExpected = 4;
      seen.images = document.images.length;
      const result = document.createElement("pre");
      result.id = "result";
      result.textContent = JSON.stringify(seen);
      document.body.append(result);
    }, 200);
  }, 200);
})();
