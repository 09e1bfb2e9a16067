"use strict";
// Keeps a page current. Everything on it works without this.
(() => {
  const source = document.body.dataset.live;
  let version = document.body.dataset.version;
  const news = document.getElementById("news");
  const newer = document.getElementById("newer");
  let events = null, waiting = null, busy = false, again = false;

  // "3 min ago" goes on being true.
  const ago = (seconds) => {
    if (seconds < 10) return "just now";
    if (seconds < 60) return Math.floor(seconds) + " s ago";
    if (seconds < 3600) return Math.floor(seconds / 60) + " min ago";
    if (seconds < 86400) return Math.floor(seconds / 3600) + " h ago";
    if (seconds < 2 * 86400) return "yesterday";
    return Math.floor(seconds / 86400) + " days ago";
  };
  const tell = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const text = ago(Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(tell, 10000);

  const part = (name) => document.querySelector(`[data-part="${name}"]`);
  // Nothing is taken from under somebody's hands.
  const inUse = (at) => at.contains(document.activeElement) || at.querySelector(":popover-open");
  const isRead = (at) => inUse(at) || at.getBoundingClientRect().top < innerHeight / 3;
  // The parts of one sketch go together.
  const show = () => {
    if (!waiting) return;
    const scroll = scrollY;
    for (const fresh of waiting) part(fresh.dataset.part).replaceWith(document.adoptNode(fresh));
    document.dispatchEvent(new Event("sketch"));
    scrollTo(0, scroll);
    waiting = null;
    newer.hidden = true;
  };
  if (newer) newer.addEventListener("click", show);

  const swap = (page) => {
    const sketch = [];
    for (const fresh of page.querySelectorAll("[data-part]")) {
      const at = part(fresh.dataset.part);
      if (!at) continue;
      if (at.dataset.revision) {
        if (at.dataset.revision === fresh.dataset.revision) continue;
        sketch.push(fresh);
      } else if (at.outerHTML !== fresh.outerHTML && !inUse(at)) {
        at.replaceWith(document.adoptNode(fresh));
      }
    }
    if (sketch.length) {
      waiting = sketch;
      const read = sketch.map((fresh) => part(fresh.dataset.part)).filter((at) => at.children.length);
      if (read.some(isRead)) newer.hidden = false;
      else show();
    }
    version = page.body.dataset.version;
    document.title = page.title;
    tell();
  };
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const address = new URL(location.href);
      address.searchParams.delete("did");
      const answer = await fetch(address, { headers: { accept: "text/html" } });
      if (answer.ok) {
        swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
        document.body.dataset.updates = Number(document.body.dataset.updates || 0) + 1;
      }
    } catch {
      // The server is away; the stream says when it is back.
    }
    busy = false;
    if (again) { again = false; refresh(); }
  };

  // A page that nobody looks at needs no connection: browsers have few of them.
  const listen = () => {
    if (!source || document.hidden || events) return;
    events = new EventSource(source);
    events.addEventListener("open", () => { news.dataset.state = "live"; news.title = "This page is kept current"; });
    events.addEventListener("error", () => { news.dataset.state = "away"; news.title = "The server cannot be reached just now"; });
    events.addEventListener("version", (e) => { if (e.data !== version) refresh(); });
  };
  const rest = () => {
    if (events) events.close();
    events = null;
    news.dataset.state = "";
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);
  listen();

  // What was done is said once.
  if (new URLSearchParams(location.search).has("did")) history.replaceState(null, "", location.pathname + location.hash);

  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
    e.preventDefault();
    document.getElementById("q").focus();
  });
})();
