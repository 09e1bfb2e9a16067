"use strict";
(() => {
  const $ = (q, at = document) => [...at.querySelectorAll(q)];
  const NS = "http://www.w3.org/2000/svg";
  // The sketch that is shown. A page may put another one in its place. Arrows are pairs of steps; the pattern is the way along them.
  let table, rows, now, prefix, arrows, pattern, svg;
  let pinned = null;
  const row = (n) => document.getElementById("n" + n);
  const shown = (r) => r.getClientRects().length > 0;

  // What is followed: every step of one variable (v) or one thread (t).
  const mark = (what) => {
    for (const r of rows) r.classList.toggle("on", !!what && r.dataset[what[0]] === what[1]);
  };
  const pin = (what, name) => {
    pinned = pinned && what && pinned[0] === what[0] && pinned[1] === what[1] ? null : what;
    mark(pinned);
    if (now) now.textContent = pinned ? "following " + name : "";
  };
  // Of several arrows, those of one step.
  const light = (r) => {
    const own = (part) => !!r && part.dataset.of.split(" ").includes(r.id.slice(1));
    const parts = [...svg.children];
    svg.classList.toggle("some", arrows.length > 1 && parts.some(own));
    for (const part of parts) part.classList.toggle("hot", own(part));
  };
  const reveal = (r) => {
    if (!shown(r) && prefix) { prefix.checked = true; draw(); }
  };
  const go = (r) => {
    if (!r) return;
    reveal(r);
    r.focus({ preventScroll: true });
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    r.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
  };
  const current = () => document.activeElement && document.activeElement.closest("tr[data-t]");
  const next = (step, fits) => {
    const list = rows.filter((r) => shown(r) || fits);
    const at = list.indexOf(current());
    if (at < 0) return step > 0 ? list.find(fits || (() => true)) : list.findLast(fits || (() => true));
    for (let i = at + step; i >= 0 && i < list.length; i += step) if (!fits || fits(list[i])) return list[i];
    return null;
  };
  const same = (what) => {
    const r = current();
    return r && r.dataset[what] ? (other) => other.dataset[what] === r.dataset[what] : null;
  };
  const along = () => {
    const r = current();
    const at = r ? pattern.indexOf(r.id.slice(1)) : -1;
    return row(pattern[(at + 1) % pattern.length]);
  };

  // Source lines around a statement, below it; a second time takes them away.
  const context = (link) => {
    const step = link.closest(".step");
    const old = step.querySelector(".context");
    if (old) { old.remove(); draw(); return; }
    const line = document.getElementById(link.getAttribute("href").slice(1));
    if (!line) return;
    const pre = document.createElement("pre");
    pre.className = "src context";
    pre.tabIndex = 0;
    const all = [...line.parentNode.children];
    const at = all.indexOf(line);
    for (const near of all.slice(Math.max(0, at - 4), at + 5)) {
      const copy = near.cloneNode(true);
      copy.removeAttribute("id");
      copy.classList.toggle("hl", near === line);
      pre.append(copy);
    }
    step.append(pre);
    draw();
  };

  // Sorts by a column; figures begin with the largest, but for the first one, which is a rank.
  const sort = (head) => {
    const grid = head.closest("table");
    const heads = $("th", head.parentNode);
    const at = heads.indexOf(head);
    const body = grid.tBodies[0];
    const key = (r) => {
      const cell = r.cells[at];
      return cell.dataset.s === undefined ? cell.textContent : Number(cell.dataset.s);
    };
    const list = [...body.rows];
    const figures = typeof key(list[0]) === "number";
    const was = head.getAttribute("aria-sort");
    const down = was === "none" ? figures && at > 0 : was === "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    list.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const order = figures ? x - y : x.localeCompare(y);
      return (down ? -order : order) || Number(a.cells[0].dataset.s) - Number(b.cells[0].dataset.s);
    });
    body.append(...list);
  };

  document.addEventListener("click", (e) => {
    const head = e.target.closest(".sort");
    if (head) sort(head.parentNode);
    if (!table) return;
    const follow = e.target.closest(".follow");
    if (follow) {
      const { k = "v", i = follow.closest("tr").dataset.v } = follow.dataset;
      pin([k, i], follow.textContent);
    }
    const jump = e.target.closest("a[data-to]");
    if (jump) { e.preventDefault(); go(row(jump.dataset.to)); }
    const source = e.target.closest("a[data-src]");
    if (source) { e.preventDefault(); context(source); }
  });

  document.addEventListener("keydown", (e) => {
    if (!table || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, summary, dialog, [popover]")) return;
    const here = current();
    const keys = {
      j: () => go(next(1)), k: () => go(next(-1)),
      ArrowDown: () => here && go(next(1)), ArrowUp: () => here && go(next(-1)),
      v: () => same("v") && go(next(1, same("v"))), V: () => same("v") && go(next(-1, same("v"))),
      t: () => same("t") && go(next(1, same("t"))), T: () => same("t") && go(next(-1, same("t"))),
      a: () => pattern.length && go(along()),
      f: () => here && here.dataset.v && pin(["v", here.dataset.v], here.querySelector(".v .follow").textContent),
      F: () => here && pin(["t", here.dataset.t], document.querySelector(`.lanes th [data-i="${here.dataset.t}"]`).textContent),
      c: () => here && here.querySelector("a[data-src]") && context(here.querySelector("a[data-src]")),
      p: () => prefix && prefix.click(),
      Escape: () => pin(null, ""),
    };
    const act = keys[e.key];
    if (!act || (e.key.startsWith("Arrow") && !here)) return;
    if (e.key !== "Escape") e.preventDefault();
    act();
  });

  // Arrows between the steps of the best pattern. A path leaves a box at the side where the next one is.
  const draw = () => {
    if (!table) return;
    svg.replaceChildren();
    const frame = table.parentNode.getBoundingClientRect();
    const left = frame.left - table.parentNode.scrollLeft;
    svg.setAttribute("width", table.offsetWidth);
    svg.setAttribute("height", table.offsetHeight);
    for (const pair of arrows) {
      const [one, two] = pair.map((n) => row(n) && row(n).querySelector(".step"));
      if (!one || !two || !one.getClientRects().length || !two.getClientRects().length) continue;
      const [a, b] = [one.getBoundingClientRect(), two.getBoundingClientRect()];
      const path = document.createElementNS(NS, "path");
      const tip = document.createElementNS(NS, "path");
      const [al, ar, bl, br] = [a.left, a.right, b.left, b.right].map((x) => x - left);
      const [ay, by] = [a, b].map((box) => box.top + box.height / 2 - frame.top);
      const bend = 16;
      let [line, head] = ["", ""];
      if (bl >= ar || br <= al) {
        // Side by side.
        const dir = bl >= ar ? 1 : -1;
        const [x1, x2] = dir > 0 ? [ar, bl] : [al, br];
        const out = dir * Math.max(24, Math.abs(x2 - x1) / 2);
        line = `M${x1},${ay} C${x1 + out},${ay} ${x2 - out},${by} ${x2 - dir * 7},${by}`;
        head = `M${x2},${by} l${-dir * 10},-5.5 v11 z`;
      } else if (bl - al > bend * 2 && a.bottom <= b.top) {
        // Below and further right: down out of the one, into the other's side.
        const x = bl - bend;
        line = `M${x},${a.bottom - frame.top} C${x},${by} ${x},${by} ${bl - 7},${by}`;
        head = `M${bl},${by} l-10,-5.5 v11 z`;
      } else if (al - bl > bend * 2 && a.bottom <= b.top) {
        // Below and further left: out of the one's side, down into the other.
        const [x, y] = [al - bend, b.top - frame.top];
        line = `M${al},${ay} C${x},${ay} ${x},${ay} ${x},${y - 7}`;
        head = `M${x},${y} l-5.5,-10 h11 z`;
      } else {
        // Between the boxes and the numbers beside them.
        const out = Math.min(26, al - 22);
        line = `M${al},${ay} C${al - out},${ay} ${bl - out},${by} ${bl - 7},${by}`;
        head = `M${bl},${by} l-10,-5.5 v11 z`;
      }
      for (const part of [path, tip]) part.dataset.of = pair.join(" ");
      path.setAttribute("d", line);
      tip.setAttribute("d", head);
      tip.setAttribute("class", "tip");
      svg.append(path, tip);
    }
    light(current());
  };
  const resized = new ResizeObserver(() => draw());

  const begin = () => {
    for (const head of $(".sortable th")) {
      if (head.querySelector(".sort")) continue;
      const button = document.createElement("button");
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
    }
    resized.disconnect();
    pinned = null;
    table = document.querySelector(".lanes");
    if (!table) return;
    rows = $("tr[data-t]", table);
    now = document.querySelector(".now");
    prefix = document.getElementById("prefix");
    for (const r of rows) if (!r.hasAttribute("tabindex")) r.tabIndex = -1;
    arrows = (table.dataset.pattern || "").split(" ").filter(Boolean).map((pair) => pair.split(">"));
    pattern = arrows.flat().filter((n, i, all) => n !== all[i - 1]);
    table.addEventListener("mouseover", (e) => {
      const r = e.target.closest("tr[data-t]");
      const head = e.target.closest("[data-k]");
      light(r || current());
      if (!pinned) mark(head ? [head.dataset.k, head.dataset.i] : r && r.dataset.v ? ["v", r.dataset.v] : null);
    });
    table.addEventListener("mouseleave", () => { mark(pinned); light(current()); });
    table.addEventListener("focusin", (e) => {
      const r = e.target.closest("tr[data-t]");
      light(r);
      if (r && !pinned) mark(r.dataset.v ? ["v", r.dataset.v] : null);
    });
    table.addEventListener("focusout", () => light(null));
    if (prefix) prefix.addEventListener("change", draw);
    svg = document.createElementNS(NS, "svg");
    svg.setAttribute("class", "arrows");
    svg.setAttribute("aria-hidden", "true");
    table.parentNode.append(svg);
    draw();
    resized.observe(table);
  };
  begin();
  document.addEventListener("sketch", begin);
  document.documentElement.dataset.ready = "1";
})();
