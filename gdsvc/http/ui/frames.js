/* When things are drawn: what is asked for between two frames is done once, in the next; nothing while nobody looks. */

const REDUCED_MOTION = matchMedia("(prefers-reduced-motion: reduce)");
const waitingTasks = new Set();

/** Runs `task` in the next animation frame, once however often it is asked for. */
function inNextFrame(task) {
  if (!waitingTasks.size) requestAnimationFrame(runTasks);
  waitingTasks.add(task);
}

function runTasks() {
  const tasks = [...waitingTasks];
  waitingTasks.clear();
  for (const task of tasks) task();
}
