// Since when no event of a batch came, once that is a minute ago; else null. Heartbeats of the stream
// do not count: they come also when nothing happens.
import { useCallback, useEffect, useRef, useState } from "react";
import { useLiveEvents } from "./LiveProvider";
import type { LiveEvent } from "./stream";

export const SILENT_EVENTS_MS = 60_000;
const CHECK_MS = 1000;

export function useSilence(batchId: number): number | null {
  const lastEventAt = useRef(Date.now());
  const [silentSince, setSilentSince] = useState<number | null>(null);
  useLiveEvents(
    useCallback(
      (events: LiveEvent[]) => {
        if (!events.some(({ batch_id }) => batch_id === batchId)) return;
        lastEventAt.current = Date.now();
        setSilentSince(null);
      },
      [batchId],
    ),
  );
  useEffect(() => {
    const timer = setInterval(() => {
      if (Date.now() - lastEventAt.current >= SILENT_EVENTS_MS) setSilentSince(lastEventAt.current);
    }, CHECK_MS);
    return () => clearInterval(timer);
  }, []);
  return silentSince;
}
