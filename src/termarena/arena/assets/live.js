// A battle while it is fought: one stream of events, a terminal that shows the trial that was chosen, and a feed.
"use strict";
(() => {
  const MOST_LINES = 500;
  const MOST_TEXT = 1 << 20;
  const place = document.getElementById("live");
  if (!place) return;
  const [feed, trials, screen, state] = ["feed", "trials", "screen", "state"].map((id) => document.getElementById(id));
  const seen = new Map();
  let chosen = null;
  let show = null;

  // A driver of the player that shows what it is told, when it is told.
  const driver = ({ dispatch }, { cols, rows }) => {
    const fit = (size) => screen.style.setProperty("--cols", size.cols);
    show = {
      reset: (size) => { fit(size); dispatch("reset", { size }); },
      output: (text) => dispatch("output", text),
      resize: (size) => { fit(size); dispatch("resize", size); },
    };
    return {
      init: () => { dispatch("reset", { size: { cols, rows } }); if (chosen) redraw(chosen); },
      play: () => { dispatch("play"); dispatch("playing"); return true; },
      getCurrentTime: () => 0,
    };
  };
  const open = () => {
    if (screen.dataset.state) return;
    screen.dataset.state = "open";
    AsciinemaPlayer.create(driver, screen, { cols: 80, rows: 24, fit: "width", autoPlay: true, controls: false, terminalLineHeight: 1.25 });
  };
  const sizeOf = (text) => {
    const [cols, rows] = text.split("x").map(Number);
    return { cols: cols || 80, rows: rows || 24 };
  };
  const redraw = (name) => {
    const trial = seen.get(name);
    show?.reset(trial.size);
    trial.text.forEach((text) => show?.output(text));
  };
  const choose = (name) => {
    chosen = name;
    for (const [other, trial] of seen) trial.button.setAttribute("aria-pressed", String(other === name));
    open();
    redraw(name);
  };

  const trialOf = (name) => {
    if (seen.has(name)) return seen.get(name);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => choose(name));
    const item = document.createElement("li");
    item.append(button);
    trials.append(item);
    const trial = { button, text: [], size: { cols: 80, rows: 24 }, length: 0 };
    seen.set(name, trial);
    return trial;
  };
  const say = (kind, at, text) => {
    const line = document.createElement("li");
    const when = document.createElement("span");
    line.className = kind;
    when.className = "when";
    when.textContent = (at || new Date().toISOString()).slice(11, 19);
    line.append(when, " ", text);
    const isAtEnd = feed.scrollHeight - feed.scrollTop - feed.clientHeight < 40;
    feed.append(line);
    while (feed.children.length > MOST_LINES) feed.firstChild.remove();
    if (isAtEnd) feed.scrollTop = feed.scrollHeight;
  };

  const heard = {
    state: (told) => {
      state.textContent = told.state.replace("_", " ");
      state.className = `tag ${told.state}`;
      say("state", told.at, told.message || told.state.replace("_", " "));
    },
    told: (told) => {
      say("told", told.at, told.by ? `${told.by}: ${told.text}` : told.text);
      if (told.terminal_output) say("step", told.at, `$ ${told.terminal_input ?? ""}\n${told.terminal_output}`);
    },
    trial: (told) => {
      const trial = trialOf(told.trial);
      if (told.state === "began") choose(told.trial);
      if (told.outcome) trial.button.className = told.outcome;
    },
    terminal: ({ trial: name, terminal, event: [, code, text] }) => {
      if (terminal !== 1) return;
      const trial = trialOf(name);
      if (code === "r") {
        trial.size = sizeOf(text);
        if (chosen === name) trial.text.length ? show?.resize(trial.size) : show?.reset(trial.size);
      } else if (code === "o") {
        trial.text.push(text);
        trial.length += text.length;
        while (trial.length > MOST_TEXT) trial.length -= trial.text.shift().length;
        if (chosen === name) show?.output(text);
      }
    },
    step: (told) => {
      if (told.kind === "answer") { if (told.exit_status !== 0) say("step failed", told.at, `exit status ${told.exit_status}`); }
      else say("step", told.at, told.kind === "command" ? `$ ${told.text}` : `${told.kind.replace("_", " ")} ${told.text}`);
    },
  };
  const listen = () => {
    const source = new EventSource(place.dataset.src);
    source.addEventListener("open", () => {
      // Whoever comes back is told everything anew.
      feed.replaceChildren();
      for (const trial of seen.values()) { trial.text = []; trial.length = 0; }
      place.dataset.state = "live";
    });
    for (const [name, hear] of Object.entries(heard)) source.addEventListener(name, (event) => hear(JSON.parse(event.data)));
    source.addEventListener("end", () => {
      source.close();
      place.dataset.state = "over";
      location.reload();
    });
  };
  if (place.dataset.over === "false") listen();
})();
