(() => {
  const data = JSON.parse(document.getElementById("orders").textContent);
  const home = document.getElementById("lesson");
  const way = ["ahead", "behind", "ring", "here", "line"].map(name => home.querySelector(`.dnb-way-${name}`));
  let order = 0, at = 0;
  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    return node;
  };
  const table = (head, rows) => {
    const made = make("table"), line = made.appendChild(make("tr"));
    head.forEach(name => line.append(make("th", name, {scope: "col"})));
    rows.forEach(row => made.append(row));
    return made;
  };
  const cells = (values, kind = "") => {
    const line = make("tr");
    values.forEach(one => line.append(make("td", one, {class: one === "" ? "" : kind})));
    return line;
  };
  const choice = make("select", undefined, {"aria-label": "order"});
  data.orders.forEach((one, place) => choice.append(make("option", one.label, {value: place})));
  const controls = make("div", undefined, {class: "controls"});
  const button = (text, move) => {
    const made = controls.appendChild(make("button", text, {type: "button"}));
    made.addEventListener("click", move);
    return made;
  };
  const last = () => data.orders[order].turns.length;
  const go = place => { at = Math.min(Math.max(place, 0), last()); show(); };
  const first = button("|◀ first", () => go(0)), back = button("◀ back", () => go(at - 1));
  const next = button("next ▶", () => go(at + 1)), end = button("last ▶|", () => go(last()));
  controls.append(make("span", "or the keys ← → Home End"));
  const status = make("p", undefined, {"aria-live": "polite"});
  const sides = make("div", undefined, {class: "sides"});
  const course = path => path.length ? "M" + path.flatMap((place, at) => [
    ...(at && data.bends[`${path[at - 1]} ${place}`] || []), data.places[place],
  ]).map(one => one.join(" ")).join("L") : "M0 0";
  const draw = path => {
    const now = data.places[path[at]];
    const [ahead, behind, ring, here, line] = way;
    ahead.setAttribute("d", course(path.slice(at)));
    behind.setAttribute("d", course(path.slice(0, at + 1)));
    [ring, here, line].forEach(node => node.setAttribute("visibility", now ? "visible" : "hidden"));
    if (!now) return;
    const up = line.getAttribute("d").split(/[ V]/)[1], reach = ring.r.baseVal.value;
    ring.setAttribute("cx", now[0]);
    ring.setAttribute("cy", now[1]);
    line.setAttribute("d", `M${now[0]} ${up}V${now[1] - reach}`);
    here.setAttribute("x", now[0]);
    here.textContent = at ? `turn ${at}` : "start";
    const svg = ring.ownerSVGElement, wide = svg.viewBox.baseVal.width;
    const frame = svg.parentNode, x = now[0] * svg.clientWidth / wide;
    if (x < frame.scrollLeft + 40 || x > frame.scrollLeft + frame.clientWidth - 40)
      frame.scrollLeft = x - frame.clientWidth / 2;
  };
  const show = () => {
    const {turns, rows, number, path, broken, more} = data.orders[order];
    first.disabled = back.disabled = at === 0;
    next.disabled = end.disabled = at === last();
    status.replaceChildren(`turn ${at} of ${last()} (order number ${number})${at === last() ? more : ""} `);
    if (broken.includes(at)) status.append(make("b", data.broken, {class: "breaks"}));
    if (way[0]) draw(path);
    const lines = turns.map((turn, place) => {
      const [writer, did, words] = turn;
      const line = cells(data.columns ? data.writers.map(name => name === writer ? words : "") :
        [writer, words], did);
      line.prepend(make("td", place + 1));
      line.className = place + 1 === at ? "now" : place + 1 > at ? "later" : "";
      if (place + 1 === at) line.setAttribute("aria-current", "step");
      return line;
    });
    const then = make("div");
    (data.tables[rows[at]] || []).forEach(one => {
      then.append(make("p", one.words), table(one.columns, one.rows.map(row => cells(row))));
    });
    sides.replaceChildren(table(["turn", ...(data.columns ? data.writers : ["writer", "what"])], lines), then);
  };
  choice.addEventListener("change", () => { order = Number(choice.value); go(0); });
  document.addEventListener("keydown", event => {
    if (event.target === choice || event.altKey || event.ctrlKey || event.metaKey) return;
    const moves = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last()};
    if (event.key in moves) { event.preventDefault(); go(moves[event.key]); }
  });
  if (!data.orders.length) return;
  home.prepend(choice, controls, status);
  home.append(sides);
  show();
})();
