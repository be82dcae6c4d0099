// The replay of a trial: pauses longer than two seconds are cut, and steps and recording go together.
"use strict";
(() => {
  const LONGEST_PAUSE_S = 2;
  const place = document.getElementById("player");
  if (!place) return;
  const steps = [...document.querySelectorAll(".step[data-at]")].map((node) => ({ node, at: Number(node.dataset.at) }));

  // From the recording's own time to the shown time: a list of [own, shown] corners between which time runs evenly.
  const shorten = (text) => {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    const corners = [[0, 0]];
    const kept = [lines[0]];
    const isRelative = JSON.parse(lines[0]).version === 3;
    let own = 0;
    let shown = 0;
    for (const line of lines.slice(1)) {
      if (line.startsWith("#")) continue;
      let event;
      try { event = JSON.parse(line); } catch { break; }
      const gap = Math.max(0, isRelative ? event[0] : event[0] - own);
      const cut = Math.min(gap, LONGEST_PAUSE_S);
      own += gap;
      shown += cut;
      if (cut < gap) corners.push([own, shown]);
      event[0] = isRelative ? cut : shown;
      kept.push(JSON.stringify(event));
    }
    corners.push([own, shown]);
    return { data: kept.join("\n") + "\n", corners };
  };
  const shownTime = (corners, own) => {
    for (let i = 1; i < corners.length; i += 1) {
      const [before, after] = [corners[i - 1], corners[i]];
      if (own <= after[0]) return Math.min(before[1] + Math.max(0, own - before[0]), after[1]);
    }
    return corners[corners.length - 1][1];
  };

  const follow = (player, times) => {
    let now = null;
    let isBegun = false;
    player.addEventListener("play", () => { isBegun = true; });
    const tick = async () => {
      if (!isBegun) return;
      const at = await player.getCurrentTime();
      let current = null;
      times.forEach((time, i) => { if (time <= at + 0.05) current = steps[i].node; });
      if (current !== now) {
        now?.classList.remove("now");
        now?.removeAttribute("aria-current");
        current?.classList.add("now");
        current?.setAttribute("aria-current", "step");
        now = current;
      }
    };
    setInterval(tick, 200);
    steps.forEach((step, i) => {
      step.node.querySelector(".seek")?.addEventListener("click", async () => {
        isBegun = true;
        await player.seek(times[i]);
        place.scrollIntoView({ block: "nearest" });
      });
    });
  };

  const begin = ({ source, corners }) => {
    const times = steps.map((step) => shownTime(corners, step.at));
    place.replaceChildren();
    place.style.setProperty("--cols", place.dataset.cols);
    const player = AsciinemaPlayer.create(source, place, {
      cols: Number(place.dataset.cols), rows: Number(place.dataset.rows), fit: "width", preload: true,
      poster: `npt:${corners[corners.length - 1][1] + 1}`, terminalLineHeight: 1.25,
    });
    place.dataset.state = "ready";
    player.addEventListener("play", () => { place.dataset.state = "playing"; });
    player.addEventListener("ended", () => { place.dataset.state = "ended"; });
    follow(player, times);
  };
  const say = (text) => {
    const told = document.createElement("p");
    told.className = "note";
    told.setAttribute("role", "status");
    told.textContent = text;
    place.replaceChildren(told);
  };
  const fail = ({ told }) => say(`There is no replay here: ${told || "the recording cannot be played"}. It can be fetched below.`);
  const fetched = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) {
      const document = await answer.json().catch(() => null);
      throw Object.assign(new Error(String(answer.status)), { told: document?.error?.message });
    }
    return answer;
  };
  const whole = (text) => {
    const { data, corners } = shorten(text);
    return { source: { data }, corners };
  };
  const read = async () => {
    const { inline, segments, src } = place.dataset;
    if (inline) return whole(JSON.parse(document.getElementById(inline).textContent));
    // A large one comes in pieces, each with the screen at its start; the server has cut the pauses.
    if (segments) {
      say("The recording is large, and is being cut into pieces the first time it is looked at.");
      const { corners } = await (await fetched(segments)).json();
      return { source: { url: segments, format: "segmented" }, corners };
    }
    return whole(await (await fetched(src)).text());
  };
  read().then(begin).catch(fail);
})();
