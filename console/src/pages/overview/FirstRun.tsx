// An installation in which no mission has been completed yet explains itself, and ticks off what has been done.
import { Anchor, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { fleetKeys, proxies, workers, writers } from "../../api/fleet";
import { missionCounts, missionKeys } from "../../api/missions";
import { demo, startDemo, statsKey } from "../../api/operations";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { ActButton } from "../../parts/act";
import { Copyable } from "../../parts/Copy";

const COMMAND = "regente up --demo";

export function FirstRun() {
  const { data } = useQuery(missionCounts);
  if (!data || data.completed > 0) return null;
  return <Steps counts={data} />;
}

interface Counts {
  draft: number;
  queued: number;
  running: number;
  completed: number;
  failed: number;
  canceled: number;
}

function Steps({ counts }: { counts: Counts }) {
  const t = useT();
  const active = (members: { active: boolean }[] | undefined) =>
    members?.filter((one) => one.active).length ?? 0;
  const fleet = {
    workers: active(useQuery(workers).data),
    proxies: active(useQuery(proxies).data),
    writers: active(useQuery(writers).data),
  };
  const made =
    counts.draft +
    counts.queued +
    counts.running +
    counts.completed +
    counts.failed +
    counts.canceled;
  return (
    <Paper
      withBorder
      p="md"
      mb="md"
      component="section"
      aria-label={t("first.title")}
      className="first"
    >
      <Title order={2} size="h4" mb="sm">
        {t("first.title")}
      </Title>
      <ol className="steps">
        <Step
          done={Object.values(fleet).every((count) => count > 0)}
          now={t("first.fleetNow", fleet)}
        >
          <Anchor component={Link} href="/fleet">
            {t("first.fleet")}
          </Anchor>
        </Step>
        <Step done={made > 0} now={t("first.missionNow", { count: made })}>
          <Anchor component={Link} href="/missions?new=1">
            {t("first.mission")}
          </Anchor>
        </Step>
        <Step
          done={counts.completed > 0}
          now={t("first.doneNow", { running: counts.running, queued: counts.queued })}
        >
          {t("first.done")}
        </Step>
      </ol>
      {made === 0 && <Demo />}
    </Paper>
  );
}

function Step({ done, now, children }: { done: boolean; now: string; children: ReactNode }) {
  const t = useT();
  return (
    <li data-done={done}>
      <span className="tick" aria-hidden="true">
        {done ? "✓" : ""}
      </span>
      <span>
        {children}{" "}
        <span className="hidden-text">({t(done ? "first.isDone" : "first.isOpen")})</span>
        <span className="quiet step-now" role="status">
          {now}
        </span>
      </span>
    </li>
  );
}

function Demo() {
  const t = useT();
  const mayStart = useMay("admin");
  const { data } = useQuery(demo);
  return (
    <Stack gap="xs" mt="md">
      <Text size="sm">{t("first.demo")}</Text>
      {data?.state === "running" && (
        <Text size="sm" role="status">
          {t("first.demoRuns")}
        </Text>
      )}
      {data?.state === "possible" && mayStart && (
        <div>
          <ActButton act={startDemo} stale={[["demo"], fleetKeys.all, missionKeys.all, statsKey]}>
            {t("first.runDemo")}
          </ActButton>
        </div>
      )}
      {data?.state === "impossible" && (
        <Text size="sm" component="div">
          {t("first.demoHow")} <Copyable text={COMMAND} />
        </Text>
      )}
    </Stack>
  );
}
