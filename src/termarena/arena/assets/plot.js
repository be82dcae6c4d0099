// A plot that can be looked at closer: what is drawn without a script stays, and a chart that zooms takes its place.
"use strict";
(() => {
  const NEAR_PX = 40;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const money = (cost) => `$${Number(cost.toPrecision(3))}`;
  const read = (node) => {
    const { label, cost, mean, low, high } = node.dataset;
    const share = (value) => (value === undefined ? null : 100 * Number(value));
    return { label, cost: Number(cost), mean: share(mean), low: share(low), high: share(high), isOurs: node.classList.contains("ours") };
  };
  const tell = (point) => `${point.label}: ${point.mean.toFixed(1)} % at ${money(point.cost)} a trial`;

  // Every entry with its interval; the series has no line between them.
  const drawn = (points) => (u) => {
    const place = (value, scale) => u.valToPos(value, scale, true);
    const context = u.ctx;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    for (const point of points) {
      const [x, y] = [place(point.cost, "x"), place(point.mean, "y")];
      context.fillStyle = context.strokeStyle = colour(point.isOurs ? "--gold" : "--accent");
      context.lineWidth = 2 * devicePixelRatio;
      context.globalAlpha = 0.5;
      context.beginPath();
      if (point.low !== null) { context.moveTo(x, place(point.low, "y")); context.lineTo(x, place(point.high, "y")); }
      context.stroke();
      context.globalAlpha = 1;
      context.beginPath();
      context.arc(x, y, 5 * devicePixelRatio, 0, 2 * Math.PI);
      context.fill();
    }
    context.restore();
    return null;
  };
  const nearest = (points, told) => (u) => {
    const { left, top } = u.cursor;
    let [best, least] = [null, NEAR_PX];
    for (const point of points) {
      const away = Math.hypot(u.valToPos(point.cost, "x") - left, u.valToPos(point.mean, "y") - top);
      if (away < least) [best, least] = [point, away];
    }
    told.textContent = best ? tell(best) : "Drag to zoom, click twice to see all.";
  };
  // All of them have some room at the sides; what was zoomed to is shown as it was chosen.
  const padded = (points) => (_, low, high) => {
    const isAll = low <= points[0].cost && high >= points[points.length - 1].cost;
    return isAll ? [low / 1.3, high * 1.3] : [low, high];
  };
  const chart = (points, place, told) => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const options = {
      mode: 2,
      width: Math.max(280, place.clientWidth),
      height: 380,
      scales: { x: { time: false, distr: 3, range: padded(points) }, y: { range: [0, 100] } },
      axes: [
        { ...axis, label: "cost of a trial", values: (_, all) => all.map((one) => (one === null ? "" : money(one))) },
        { ...axis, values: (_, all) => all.map((one) => `${one} %`) },
      ],
      series: [{}, { facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }], paths: drawn(points) }],
      cursor: { drag: { x: true, y: false }, points: { show: false } },
      legend: { show: false },
      hooks: { setCursor: [nearest(points, told)] },
    };
    return new uPlot(options, [null, [points.map((one) => one.cost), points.map((one) => one.mean)]], place);
  };

  for (const figure of document.querySelectorAll("figure.closer")) {
    const svg = figure.querySelector("svg.plot");
    const points = [...svg.querySelectorAll(".point")].map(read).sort((one, other) => one.cost - other.cost);
    const [button, place, told] = ["button", "div", "p"].map((name) => document.createElement(name));
    button.type = "button";
    button.textContent = "Look closer";
    button.setAttribute("aria-pressed", "false");
    told.className = "note small";
    told.setAttribute("role", "status");
    place.hidden = told.hidden = true;
    let made = null;
    button.addEventListener("click", () => {
      const isOpen = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!isOpen));
      svg.toggleAttribute("hidden", !isOpen);
      place.hidden = told.hidden = isOpen;
      made?.destroy();
      made = isOpen ? null : chart(points, place, told);
      if (made) told.textContent = "Drag to zoom, click twice to see all.";
    });
    figure.append(place, told, button);
  }
})();
