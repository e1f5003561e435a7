import { Alert, Anchor, NativeSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";
import {
  orchestrator,
  type Stats,
  startOrchestrator,
  statsKey,
  statsOver,
  stopOrchestrator,
  WINDOWS,
  type Window,
} from "../../api/operations";
import { useMay } from "../../app/access";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton, Confirmed } from "../../parts/act";
import { Loaded, PageHead } from "../../parts/States";
import { Charts } from "./Charts";
import { Errors, Fleet, Missions, Queues } from "./cards";
import { FirstRun } from "./FirstRun";

const CAUSE: Record<string, string> = {
  DEAD_LETTERS: "/failures",
  STALLED_BATCHES: "/batches",
  STUCK_TASKS: "/runners",
  PROXIES_FAIL: "/fleet",
  WORKERS_FAIL: "/fleet",
  PROXIES_OUT: "/fleet",
  NO_PROXY: "/fleet",
  NO_WORKER: "/fleet",
  NO_WRITER: "/fleet",
  NO_RUNNER: "/runners",
  RUNNERS_LOST: "/runners",
};

export default function Overview() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const chosen: Window = WINDOWS.find((one) => String(one) === search.get("window")) ?? 3600;
  const query = useQuery(statsOver(chosen));
  return (
    <>
      <PageHead title={t("nav.overview")}>
        <Orchestrator />
      </PageHead>
      <FirstRun />
      <Loaded query={query}>
        {(stats) => (
          <>
            <Verdict stats={stats} />
            <div className="cards">
              <Missions />
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
      </Loaded>
    </>
  );
}

function Orchestrator() {
  const t = useT();
  const mayAct = useMay("operator");
  const { data } = useQuery(orchestrator);
  if (!data) return null;
  const stale = [["orchestrator"], statsKey];
  return (
    <>
      <Text size="sm" role="status">
        {t(`orchestrator.${data.state}`)}
      </Text>
      {mayAct && data.state === "open" && (
        <Confirmed
          variant="outline"
          color="red"
          act={stopOrchestrator}
          stale={stale}
          question={t("orchestrator.stopQuestion")}
        >
          {t("orchestrator.stop")}
        </Confirmed>
      )}
      {mayAct && data.state !== "open" && (
        <ActButton act={startOrchestrator} stale={stale}>
          {t("orchestrator.start")}
        </ActButton>
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
          const text = knownId(id) ? t(id, { count }) : `${format.number(count)} ${message}`;
          return (
            <li key={code}>
              {CAUSE[code] ? (
                <Anchor component={Link} href={CAUSE[code]}>
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
