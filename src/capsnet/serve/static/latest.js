// While one call runs, only the latest of those that come meanwhile is kept: the screen never lags behind the hand.
export function latest(call) {
  let running = false;
  let next = null;
  return async function run(...values) {
    if (running) {
      next = values;
      return;
    }
    running = true;
    try {
      await call(...values);
    } finally {
      running = false;
      if (next) {
        const waiting = next;
        next = null;
        run(...waiting);
      }
    }
  };
}
