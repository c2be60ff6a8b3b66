// Every text and every mark of a page with its colour, the ground that it lies on, and their contrast.
// Colours are composited as the browser does: backgrounds of the elements around, and in a drawing what was
// painted before below the middle of the text.
drawn => {
  const TINT = 0.5;
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  const known = new Map();
  const rgba = css => {
    if (!known.has(css)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "#000";
      canvas.fillStyle = css;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(css, [r, g, b, a / 255]);
    }
    return known.get(css);
  };
  const over = (front, back, share = 1) => {
    const a = front[3] * share;
    return [0, 1, 2].map(i => front[i] * a + back[i] * (1 - a)).concat(1);
  };
  const luminance = color => {
    const [r, g, b] = color.slice(0, 3).map(c => c / 255).map(
      c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const style = node => getComputedStyle(node);
  const isPaint = css => css && css !== "none" && !css.startsWith("url") && rgba(css)[3] > 0;
  const shades = node => {
    let share = 1;
    for (let at = node; at; at = at.parentElement) share *= +style(at).opacity;
    return share;
  };
  // What is behind an element: the colours of those around it, the outermost first.
  const behind = (node, shapes) => {
    let ground = [255, 255, 255, 1];
    const around = [];
    for (let at = node.parentElement; at; at = at.parentElement) around.unshift(at);
    for (const one of around) ground = over(rgba(style(one).backgroundColor), ground);
    const svg = node.ownerSVGElement;
    if (!svg) return ground;
    let root = svg;
    while (root.ownerSVGElement) root = root.ownerSVGElement;
    const box = node.getBoundingClientRect(), lanes = root.closest(".dnb-lanes");
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    for (const band of lanes ? lanes.querySelectorAll(".dnb-band") : []) {
      const b = band.getBoundingClientRect();
      if (b.top <= y && y <= b.bottom) ground = over(rgba(style(band).backgroundColor), ground);
    }
    for (const shape of root.querySelectorAll(shapes)) {
      if (shape === node || !(shape.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const b = shape.getBoundingClientRect(), fill = style(shape).fill;
      if (b.left <= x && x <= b.right && b.top <= y && y <= b.bottom && isPaint(fill)
          && shape.isPointInFill(new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse())))
        ground = over(rgba(fill), ground, shades(shape) * +style(shape).fillOpacity);
    }
    return ground;
  };
  const isSeen = node => {
    if (node.closest("title, style, defs, .dnb-unseen, .dnb-text, option")) return false;
    const box = node.getBoundingClientRect(), its = style(node);
    return (box.width > 0 || box.height > 0) && its.visibility === "visible" && its.display !== "none"
      && shades(node) > 0;
  };
  const whole = css => { const [r, g, b, a] = rgba(css); return a === 1 ? `${r},${g},${b}` : ""; };
  const measured = [];
  const note = (kind, node, what, color, ground) => {
    const section = node.closest("section");
    const [shown, below] = [color, ground].map(one => one.slice(0, 3).map(Math.round).join(","));
    measured.push([section ? section.id : "", kind, what, contrast(color, ground), shown, below]);
  };
  const noteMark = (node, css, share, what) => {
    const ground = behind(node, "rect");
    note("mark", node, what, over(rgba(css), ground, share), ground);
  };
  for (const part of document.querySelectorAll(".dnb")) {
    const probe = part.appendChild(document.createElement("i"));
    const palette = new Set(["append", "rewrite", "delete", "optimize", "lost", "ok", "warn", "muted"].map(name => {
      probe.style.color = `var(--dnb-${name})`;
      return whole(style(probe).color);
    }).concat(drawn.map(whole)));
    probe.remove();
    for (const node of part.querySelectorAll("*")) {
      if (!isSeen(node)) continue;
      const its = style(node), isDrawn = node instanceof SVGElement;
      const words = [...node.childNodes].filter(one => one.nodeType === 3).map(one => one.data.trim()).join(" ").trim();
      if (words && !["svg", "g"].includes(node.tagName)) {
        // The ground of a text includes what it has itself.
        const own = isDrawn ? null : rgba(its.backgroundColor);
        const ground = own ? over(own, behind(node, "")) : behind(node, "rect, path");
        const color = over(rgba(isDrawn ? its.fill : its.color), ground, shades(node));
        note("text", node, words.slice(0, 60), color, ground);
      }
      if (["path", "circle", "line", "polygon", "rect"].includes(node.tagName)) {
        // A tint repeats what an outline, a number on it or the words beside it say.
        const isOutlined = isPaint(its.stroke) && palette.has(whole(its.stroke));
        const fillOpacity = isOutlined && +its.fillOpacity < 1 ? 0 : +its.fillOpacity;
        for (const [css, opacity] of [[its.fill, fillOpacity], [its.stroke, 1]])
          if (isPaint(css) && palette.has(whole(css)) && shades(node) * opacity > TINT)
            noteMark(node, css, opacity, node.tagName + " " + (node.closest("[class]")?.getAttribute("class") || ""));
      } else if (!isDrawn) {
        for (const side of ["Top", "Left"])
          if (parseFloat(its[`border${side}Width`]) > 0 && palette.has(whole(its[`border${side}Color`])))
            noteMark(node, its[`border${side}Color`], 1, "border " + node.className);
        if (palette.has(whole(its.backgroundColor)))
          noteMark(node, its.backgroundColor, 1, "bar " + node.className);
      }
    }
  }
  return measured;
}
