import { Alert, Button, Group, Text } from "@mantine/core";
import { useT } from "../i18n";
import { useFormat } from "../i18n/format";
import { useLive } from "./LiveProvider";

export function LiveBadge() {
  const t = useT();
  const { state, pause, retry } = useLive();
  const paused = state === "paused";
  return (
    <>
      <span className="live" data-state={state} role="status">
        <span className="live-dot" aria-hidden="true" />
        {t(`live.${state}`)}
      </span>
      <Button
        size="compact-xs"
        variant="subtle"
        onClick={paused ? retry : pause}
        className="live-pause"
      >
        {t(paused ? "live.resume" : "live.pause")}
      </Button>
    </>
  );
}

// Warns that the data is stale or paused, with the time of the last update.
export function StaleWarning() {
  const t = useT();
  const format = useFormat();
  const { state, lastFrameAt, retry } = useLive();
  if (state !== "stale" && state !== "paused") return null;
  const paused = state === "paused";
  return (
    <Alert
      color={paused ? "gray" : "orange"}
      role={paused ? "status" : "alert"}
      title={t(paused ? "live.pausedTitle" : "live.staleTitle")}
      mb="md"
    >
      <Group justify="space-between">
        <Text size="sm">
          {lastFrameAt
            ? t("live.staleSince", { time: format.clock(lastFrameAt) })
            : t("live.noUpdateYet")}
        </Text>
        <Button size="xs" color={paused ? "gray" : "orange"} variant="outline" onClick={retry}>
          {t(paused ? "live.resume" : "live.retry")}
        </Button>
      </Group>
    </Alert>
  );
}
