import { NativeSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import {
  orchestratorQuery,
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
import { useT } from "../../i18n";
import { Charts } from "./Charts";
import { Errors, Fleet, Missions, Queues } from "./cards";
import { FirstRun } from "./FirstRun";
import { Verdict } from "./Verdict";

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
            <Verdict attention={stats.attention} />
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
