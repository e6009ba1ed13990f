"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const places = all(".place").map(behave);
  const switches = all(".machines a");
  const tip = document.getElementById("tip");
  const dialog = document.getElementById("detail");

  root.classList.add("js");
  all(".plot title, .strip title").forEach((title) => title.remove());  // the tip says more

  // Light and dark.
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = getComputedStyle(root).colorScheme === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });

  // One machine and one task at a time, named in the address.
  function choose() {
    const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const before = places.find((place) => place.within.matches(".current"));
    const current = places.find((place) => asked && place.within.contains(asked)) ?? before ?? places[0];
    // Another machine shows the same task, if it has it.
    const task = asked?.matches(".task") ? asked.dataset.task : asked?.matches("main") ? "" : before?.task;
    places.forEach((place) => place.within.classList.toggle("current", place === current));
    switches.forEach((link) => markCurrent(link, decodeURIComponent(link.hash.slice(1)) === current.within.id));
    current.show(task);
  }
  const markCurrent = (link, isCurrent) => isCurrent ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  addEventListener("hashchange", choose);

  // A table that is too wide scrolls in its own box; the heading of any other stays in sight.
  const fit = (box) => box.classList.toggle("scrolls", box.firstElementChild.offsetWidth > box.clientWidth);
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target.closest(".wide"))));
  for (const box of all(".wide")) for (const watched of [box, box.firstElementChild]) watch.observe(watched);

  // What is under the pointer.
  const rowOf = (id) => document.querySelector(`table.rows tr[data-row="${id}"]`);
  function fill(id) {
    const row = rowOf(id);
    const list = element("dl");
    for (const field of row.cells) {
      const text = field.innerText.trim().replace(/\s+/g, " ");
      if (field.dataset.label && text && text !== "–") {
        list.append(element("dt", { textContent: field.dataset.label }), element("dd", { textContent: field.textContent.trim() }));
      }
    }
    tip.replaceChildren(element("b", { textContent: data[id].cell }), list);
  }
  document.addEventListener("pointerover", (event) => {
    const mark = event.pointerType === "mouse" && event.target.closest(".plot g, .strip g, .line");
    tip.hidden = !mark;
    if (mark) fill(mark.dataset.row ?? mark.dataset.open);
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 16 : event.clientX + 16;
    const top = event.clientY + 16 + height > innerHeight ? event.clientY - height - 16 : event.clientY + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  });

  // Details.
  function picture(launches, p50) {
    const times = launches.flatMap((launch) => launch.samples_us).sort((a, b) => a - b);
    const low = times[0];
    const cut = Math.max(times[Math.floor(0.99 * (times.length - 1))], p50 ?? 0);
    const high = cut > low ? cut : low + 1;
    const pad = 0.03 * (high - low);
    const at = (time) => `${Math.min(100, (100 * (time - low + pad)) / (high - low + 2 * pad)).toFixed(2)}%`;
    const unit = high >= 1e3 ? [1e3, "ms"] : [1, "µs"];
    const draw = (name, attributes, text) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const line = 16;
    const height = launches.length * line;
    const svg = draw("svg", { class: "samples", height: height + 24, role: "img", "aria-label": "Raw samples of each launch" });
    const rough = (high - low) / unit[0] / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((found) => found >= rough);
    const decimals = Math.max(0, -Math.floor(Math.log10(step)));
    for (let tick = Math.ceil(low / unit[0] / step) * step; tick <= high / unit[0]; tick += step) {
      const x = at(tick * unit[0]);
      svg.append(draw("line", { class: "rule", x1: x, x2: x, y1: 0, y2: height }));
      svg.append(draw("text", { x, y: height + 16, "text-anchor": "middle" }, `${tick.toFixed(decimals)} ${unit[1]}`));
    }
    launches.forEach((launch, index) => {
      const y = index * line + line / 2;
      const beyond = launch.samples_us.filter((time) => time > high).length;
      for (const time of launch.samples_us) if (time <= high) svg.append(draw("circle", { cx: at(time), cy: y, r: 3.2 }));
      if (launch.median_us !== null) {
        const x = at(launch.median_us);
        svg.append(draw("line", { class: "median", x1: x, x2: x, y1: y - 6, y2: y + 6 }));
      }
      if (beyond) svg.append(draw("text", { x: "100%", y: y + 4, "text-anchor": "end" }, `+${beyond} →`));
    });
    if (p50 !== null) svg.append(draw("line", { class: "all", x1: at(p50), x2: at(p50), y1: 0, y2: height }));
    return svg;
  }
  function launchTable(launches) {
    const titles = ["launch", "samples", "median", "slowest", "import", "load", "first inference", "memory: imported", "peak: load", "first", "steady", "state of the machine"];
    const time = (us) => (us === null ? "–" : us >= 1e3 ? `${(us / 1e3).toPrecision(4)} ms` : `${us.toPrecision(4)} µs`);
    const body = launches.map((launch) => [
      (launch.time ?? "").slice(0, 16).replace("T", " "), launch.num_samples, time(launch.median_us), time(launch.max_us),
      launch.import, launch.load, launch.first, ...launch.peaks, launch.state,
    ]);
    const line = (name, texts) => element("tr", {}, ...texts.map((text) => element(name, { textContent: text })));
    const table = element("table", {}, element("thead", {}, line("th", titles)), element("tbody", {}, ...body.map((texts) => line("td", texts))));
    return element("div", { className: "scroll" }, table);
  }
  function open(id) {
    const found = data[id];
    const parts = [element("h2", { id: "detail-title", textContent: found.cell })];
    const note = rowOf(id).querySelector(".note");
    if (note) parts.push(element("p", { className: "lead", textContent: note.textContent }));
    parts.push(element("code", { textContent: `bench run '${found.cell}'` }));
    if (found.launches.length) {
      const thinned = found.launches.some((launch) => launch.num_samples > launch.samples_us.length);
      const said = "Each dot is one inference, each line a launch in a fresh process, its median upright; dashed: the median of all."
        + (thinned ? " Of longer launches, evenly spaced quantiles." : "") + " The slowest 1 % lies beyond the edge where it would squeeze the rest.";
      parts.push(element("h3", { textContent: "Raw samples" }), picture(found.launches, found.p50_us), element("p", { className: "caption", textContent: said }));
      parts.push(element("h3", { textContent: "Launches" }), launchTable(found.launches));
    }
    const blocks = found.sections.map((section) => {
      const list = element("dl");
      for (const [name, text] of section.lines) list.append(element("dt", { textContent: name }), element("dd", { textContent: text }));
      return element("div", { className: section.lines.length > 12 ? "long" : "" }, element("h3", { textContent: section.title }), list);
    });
    parts.push(element("div", { className: "sections" }, ...blocks));
    document.getElementById("detail-body").replaceChildren(...parts);
    tip.hidden = true;
    dialog.showModal();
    dialog.scrollTop = 0;
  }
  document.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    const runtime = event.target.closest(".legend button");
    if (runtime) {
      const place = places.find((found) => found.within.contains(runtime));
      const select = place.filter.elements.runtime;
      if (select) select.value = select.value === runtime.dataset.runtime ? "" : runtime.dataset.runtime;
      place.apply();
      return;
    }
    const opener = event.target.closest("[data-open]");
    const mark = event.target.closest(".plot g, .line, table.rows tbody tr");
    if (opener) open(opener.dataset.open);
    else if (mark && getSelection().isCollapsed) open(mark.dataset.row);
  });

  // Copy a command. A page from a plain web server has no clipboard of its own: there the event of copying does it.
  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    const text = code.textContent.replaceAll("\u00a0", " ");
    let isCopied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(code);
      const put = (event) => { event.clipboardData.setData("text/plain", text); event.preventDefault(); };
      document.addEventListener("copy", put, { once: true });
      isCopied = document.execCommand("copy");
      document.removeEventListener("copy", put);
    }
    const said = document.getElementById("said");
    button.textContent = isCopied ? "Copied" : "Ctrl+C";
    said.textContent = isCopied ? `Copied: ${text}` : "The command is selected: copy it with Ctrl+C.";
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 4000);
  }
  all(".copy").forEach((button) => button.addEventListener("click", () => copy(button)));

  // The tasks, the filter and the tables of one machine.
  function behave(within) {
    const tables = all("table.rows", within);
    const rows = all("table.rows tr[data-row]", within);
    const marks = all("[data-row]", within).filter((found) => !rows.includes(found));
    const sections = all("section.task", within);
    const links = all(".bar nav a", within);
    const filter = within.querySelector(".filter");
    const output = filter.querySelector("output");
    const bar = within.querySelector(".bar");
    const place = { within, rows, filter, apply, show, task: undefined };

    // One task at a time; all of them for an empty name, and the first for one that is not there.
    function show(asked) {
      const known = sections.map((section) => section.dataset.task);
      place.task = asked === "" || known.includes(asked) ? asked : known[0];
      sections.forEach((section) => section.classList.toggle("current", ["", section.dataset.task].includes(place.task)));
      links.forEach((link) => markCurrent(link, link.dataset.task === place.task));
    }

    // What stays in sight below the bar.
    new ResizeObserver(() => {
      if (!bar.offsetParent) return;
      const height = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
      root.style.setProperty("--bar", `${height}px`);
    }).observe(bar);

    // Filter.
    const facets = all("select:not([name=sort])", filter).map((select) => select.name);
    function pattern(word) {
      return new RegExp(word.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*"));
    }
    function apply() {
      const words = filter.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean).map(pattern);
      const wanted = facets.map((facet) => [facet, filter.elements[facet].value]).filter(([, value]) => value);
      const found = new Set();
      for (const row of rows) {
        const fits = words.every((word) => word.test(row.dataset.words))
          && wanted.every(([facet, value]) => row.dataset[facet] === value);
        row.hidden = !fits;
        if (fits) found.add(row.dataset.row);
      }
      for (const mark of marks) {
        const fits = found.has(mark.dataset.row);
        if (mark.matches(".line")) mark.hidden = !fits;
        else mark.classList.toggle("faint", !fits);
      }
      for (const table of tables) table.parentElement.nextElementSibling.hidden = all("tbody tr:not([hidden])", table).length > 0;
      const count = (within) => all("table.rows tbody tr:not([hidden])", within).length;
      links.forEach((link) => {
        const section = sections.find((one) => one.dataset.task === link.dataset.task);
        link.querySelector(".num").textContent = count(section ?? within);
      });
      output.textContent = `${found.size} of ${rows.length} cells`;
      all(".legend button", within).forEach((button) => {
        button.setAttribute("aria-pressed", String(filter.elements.runtime?.value === button.dataset.runtime));
      });
    }
    filter.addEventListener("input", apply);
    filter.addEventListener("submit", (event) => event.preventDefault());
    filter.addEventListener("reset", () => setTimeout(() => { apply(); tables.forEach((table) => sort(table, "#")); }));

    // Sort: what has no value comes last, either way.
    const collator = new Intl.Collator("en", { numeric: true });
    function compare(one, other, isText, sign) {
      if (one === "" || other === "") return (one === "") - (other === "");
      return sign * (isText ? collator.compare(one, other) : Number(one) - Number(other));
    }
    function sort(table, key, isDescending = false) {
      const heads = all("thead th", table);
      const index = heads.findIndex((head) => head.dataset.key === key);
      if (index < 0) return;
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[index].setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      const isText = !heads[index].classList.contains("figure");
      const order = (row) => Number(row.cells[0].dataset.sort);
      const sorted = [...table.tBodies[0].rows].sort((a, b) => {
        const [one, other] = [a, b].map((row) => row.cells[index].dataset.sort);
        return compare(one, other, isText, isDescending ? -1 : 1) || order(a) - order(b);
      });
      table.tBodies[0].append(...sorted);
    }
    for (const table of tables) {
      const toggle = (event) => {
        const head = event.target.closest(".sorter")?.closest("th");
        if (!head) return;
        event.preventDefault();
        sort(table, head.dataset.key, head.getAttribute("aria-sort") === "ascending");
      };
      // No button elements: Chromium would not repeat the heading on each printed page.
      for (const sorter of all(".sorter", table)) Object.assign(sorter, { role: "button", tabIndex: 0 });
      table.tHead.addEventListener("click", toggle);
      table.tHead.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") toggle(event);
      });
    }
    const sorter = filter.elements.sort;
    const headings = new Map();  // tables leave out columns without a value
    for (const head of tables.flatMap((table) => all("thead th", table))) {
      if (!headings.has(head.dataset.key)) headings.set(head.dataset.key, head);
    }
    for (const [key, head] of headings) {
      sorter.append(new Option(key === "#" ? "sort by rank" : `sort by ${head.textContent.trim().replace(/\s+/g, " ")}`, key));
    }
    sorter.addEventListener("change", () => tables.forEach((table) => sort(table, sorter.value)));

    apply();
    return place;
  }

  choose();
})();
