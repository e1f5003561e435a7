import { Alert, Anchor, NativeSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";
import {
  orchestratorQuery,
  type Stats,
  type StatsWindow,
  startOrchestrator,
  statsKey,
  statsQuery,
  stopOrchestrator,
  WINDOWS,
} from "../../api/overview";
import { HAS_MISSIONS } from "../../app/builtins";
import { useHasRole } from "../../app/session";
import { ActionButton, ConfirmButton } from "../../components/ActionButton";
import { PageHeader, QueryView } from "../../components/States";
import { isMessageId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Charts } from "./Charts";
import { Errors, Fleet, Missions, Queues } from "./cards";
import { FirstRun } from "./FirstRun";

const ATTENTION_PATHS: Record<string, string> = {
  DEAD_LETTERS: "/failures",
  MATCHES_FAILED: "/results?of=rounds",
  ROUNDS_FAILED: "/results?of=rounds",
  STALLED_BATCHES: "/batches",
  STUCK_TASKS: "/runners",
  PROXIES_FAIL: "/fleet",
  WORKERS_FAIL: "/fleet",
  PROXIES_OUT: "/fleet",
  NO_PROXY: "/fleet",
  NO_WORKER: "/fleet",
  NO_WRITER: "/fleet",
  WRITERS_FAIL: "/fleet",
  NO_RUNNER: "/runners",
  RUNNERS_LOST: "/runners",
};

export default function Overview() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const chosen: StatsWindow = WINDOWS.find((one) => String(one) === search.get("window")) ?? 3600;
  const query = useQuery(statsQuery(chosen));
  return (
    <>
      <PageHeader title={t("nav.overview")}>{HAS_MISSIONS && <Orchestrator />}</PageHeader>
      {HAS_MISSIONS && <FirstRun />}
      <QueryView query={query}>
        {(stats) => (
          <>
            <Verdict stats={stats} />
            <div className="cards">
              {HAS_MISSIONS && <Missions />}
              <Queues stats={stats} />
              <Fleet stats={stats} />
              <Errors stats={stats} />
            </div>
            <NativeSelect
              className="window"
              size="xs"
              aria-label={t("overview.window")}
              value={chosen}
              data={WINDOWS.map((one) => ({
                value: String(one),
                label: t(`overview.window.${one}`),
              }))}
              onChange={(event) =>
                setSearch({ window: event.currentTarget.value }, { replace: true })
              }
            />
            <Charts stats={stats} window={chosen} />
          </>
        )}
      </QueryView>
    </>
  );
}

function Orchestrator() {
  const t = useT();
  const mayAct = useHasRole("operator");
  const { data } = useQuery(orchestratorQuery);
  if (!data) return null;
  const affected = [["orchestrator"], statsKey];
  return (
    <>
      <Text size="sm" role="status">
        {t(`orchestrator.${data.state}`)}
      </Text>
      {mayAct && data.state === "open" && (
        <ConfirmButton
          variant="outline"
          color="red"
          action={stopOrchestrator}
          invalidates={affected}
          question={t("orchestrator.stopQuestion")}
        >
          {t("orchestrator.stop")}
        </ConfirmButton>
      )}
      {mayAct && data.state !== "open" && (
        <ActionButton action={startOrchestrator} invalidates={affected}>
          {t("orchestrator.start")}
        </ActionButton>
      )}
    </>
  );
}

function Verdict({ stats: { attention } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  if (!attention.length)
    return <Alert color="green" className="verdict" title={t("verdict.fine")} mb="md" />;
  return (
    <Alert
      color="orange"
      className="verdict"
      title={t("verdict.needs", { count: attention.length })}
      mb="md"
    >
      <ul className="needs">
        {attention.map(({ code, count, message }) => {
          const id = `attention.${code}`;
          const text = isMessageId(id) ? t(id, { count }) : `${format.number(count)} ${message}`;
          return (
            <li key={code}>
              {ATTENTION_PATHS[code] ? (
                <Anchor component={Link} href={ATTENTION_PATHS[code]}>
                  {text}
                </Anchor>
              ) : (
                text
              )}
            </li>
          );
        })}
      </ul>
    </Alert>
  );
}
