// Measures a page in a frame of some width, and puts what it finds into an element, as JSON.
onload = () => {
  const frame = document.querySelector("iframe");
  const page = frame.contentDocument;
  const wrong = [];
  const box = (element) => element.getBoundingClientRect();
  const name = (element) => element.closest("article").id + " " + element.querySelector("title").textContent;
  const isWithin = (inner, outer, by) =>
    inner.left >= outer.left - by && inner.right <= outer.right + by &&
    inner.top >= outer.top - by && inner.bottom <= outer.bottom + by;
  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  let textPxMin = Infinity;
  const charts = [...page.querySelectorAll("svg.plot")];
  for (const chart of charts) {
    const outer = box(chart);
    if (outer.width < 150 || outer.height < 100) wrong.push(name(chart) + ": not drawn");
    if (outer.right > frame.clientWidth) wrong.push(name(chart) + ": cut off");
    const marks = chart.querySelectorAll(".mark, .ring, .dashes");
    if (marks.length === 0) wrong.push(name(chart) + ": no marks");
    for (const mark of marks) {
      // Half of a mark on an axis stands out.
      if (!isWithin(box(mark), outer, 8)) wrong.push(name(chart) + ": a mark outside");
    }
    for (const curve of chart.querySelectorAll(".curve")) {
      const points = curve.getAttribute("points").split(" ").length;
      if (points > 1 && box(curve).width === 0) wrong.push(name(chart) + ": a curve without width");
      if (!isWithin(box(curve), outer, 8)) wrong.push(name(chart) + ": a curve outside");
    }
    const texts = [...chart.querySelectorAll("text")];
    for (const text of texts) {
      const px = parseFloat(frame.contentWindow.getComputedStyle(text).fontSize) * text.getScreenCTM().a;
      textPxMin = Math.min(textPxMin, px);
      if (!isWithin(box(text), outer, 2)) wrong.push(`${name(chart)}: '${text.textContent}' outside`);
    }
    texts.forEach((text, at) => texts.slice(0, at).forEach((other) => {
      if (overlap(box(text), box(other))) {
        wrong.push(`${name(chart)}: '${text.textContent}' over '${other.textContent}'`);
      }
    }));
  }
  for (const link of page.querySelectorAll("a")) {
    const to = link.getAttribute("href");
    if (!to.startsWith("#") || !page.getElementById(to.slice(1))) wrong.push(to + ": leads nowhere");
  }
  for (const element of page.querySelectorAll("img, link, script, iframe, object, embed, video, audio")) {
    wrong.push(element.outerHTML + ": not within the page");
  }
  const summary = page.querySelector("nav");
  const found = {
    wrong,
    charts: charts.length,
    text_px_min: textPxMin,
    page_px: page.documentElement.scrollWidth,
    frame_px: frame.clientWidth,
    summary_end_px: box(summary).bottom,
    ground: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    curve: frame.contentWindow.getComputedStyle(page.querySelector(".c0 .curve")).stroke,
  };
  document.querySelector("pre").textContent = JSON.stringify(found);
};
