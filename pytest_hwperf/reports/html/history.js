// The page of a history: the charts of each test below its name.

const SERIES = embedded("history");
for (const place of document.querySelectorAll("[data-charts]")) place.append(...SERIES[place.dataset.charts].map(historyChart));
themes(() => {});
