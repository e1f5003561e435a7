// First steps, shown until the first mission is completed.
import { Anchor, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { fleetKeys, proxiesQuery, workersQuery, writersQuery } from "../../api/fleet";
import { missionCountsQuery, missionKeys } from "../../api/missions";
import { demoQuery, startDemo, statsKey } from "../../api/overview";
import { useHasRole } from "../../app/session";
import { ActionButton } from "../../components/ActionButton";
import { CopyableCommand } from "../../components/CopyableCommand";
import { useT } from "../../i18n";

const COMMAND = "regente up --demo";

export function FirstRun() {
  const { data } = useQuery(missionCountsQuery);
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
    workers: active(useQuery(workersQuery).data),
    proxies: active(useQuery(proxiesQuery).data),
    writers: active(useQuery(writersQuery).data),
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
          now={t("first.fleetCount", fleet)}
        >
          <Anchor component={Link} href="/fleet">
            {t("first.fleet")}
          </Anchor>
        </Step>
        <Step done={made > 0} now={t("first.missionCount", { count: made })}>
          <Anchor component={Link} href="/missions?new=1">
            {t("first.mission")}
          </Anchor>
        </Step>
        <Step
          done={counts.completed > 0}
          now={t("first.doneCount", { running: counts.running, queued: counts.queued })}
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
  const mayStart = useHasRole("admin");
  const { data } = useQuery(demoQuery);
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
          <ActionButton
            action={startDemo}
            invalidates={[["demo"], fleetKeys.all, missionKeys.all, statsKey]}
          >
            {t("first.runDemo")}
          </ActionButton>
        </div>
      )}
      {data?.state === "impossible" && (
        <Text size="sm" component="div">
          {t("first.demoHelp")} <CopyableCommand text={COMMAND} />
        </Text>
      )}
    </Stack>
  );
}
