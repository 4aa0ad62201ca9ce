// Draws the first charts, and gives way as soon as Streamlit's page shows the same answer, or has something else to say.
const first = document.getElementById("rooftree-first"), root = document.getElementById("root");
const READY = "[data-part=charts][data-shown], [data-testid=stAlert], [data-testid=stException]";
const ASKING = "[data-test-connection-state=CONNECTED]"; // while its server answers, the browser has time for charts
const MOST_MS = 60_000, MOST_UNASKED_MS = 5_000;
let drop = () => {};

async function draw() {
  const { default: show } = await import(document.querySelector("link[data-answer]").href);
  if (!first.isConnected) return;
  const data = JSON.parse(document.getElementById("rooftree-charts").textContent);
  drop = show({ data, parentElement: first.querySelector(".first-charts") });
}

function giveWay() {
  watching.disconnect();
  root.inert = false;
  const page = root.querySelector(".stMain");
  if (page) page.scrollTop = first.querySelector("main").scrollTop;
  first.remove();
  drop();
}

let drawing;
const look = () => {
  if (root.querySelector(READY) || document.querySelector("[role=dialog]")) giveWay();
  else if (root.querySelector(ASKING)) drawing ??= draw();
};
const watching = new MutationObserver(look);
root.inert = true; // nobody reads or presses what cannot be seen
watching.observe(document.body, {
  childList: true, subtree: true, attributes: true, attributeFilter: ["data-shown", "data-test-connection-state"],
});
look();
setTimeout(() => { drawing ??= draw(); }, MOST_UNASKED_MS);
setTimeout(() => first.isConnected && giveWay(), MOST_MS);
