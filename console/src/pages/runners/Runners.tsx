import { useQuery } from "@tanstack/react-query";
import { drainRunner, type Runner, resumeRunner, runnersKey, runnersQuery } from "../../api/engine";
import { useHasRole } from "../../app/session";
import { ActionButton } from "../../components/ActionButton";
import { type Columns, DataTable } from "../../components/DataTable";
import { EmptyState, PageHeader, QueryView } from "../../components/States";
import { StatusBadge } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

export default function Runners() {
  const t = useT();
  const columns = useColumns();
  const query = useQuery(runnersQuery);
  return (
    <>
      <PageHeader title={t("nav.runners")} />
      <QueryView query={query}>
        {(found) =>
          found.length ? (
            <DataTable
              label={t("nav.runners")}
              columns={columns}
              rows={found}
              keyOf={({ id }) => id}
              minWidth={900}
            />
          ) : (
            <EmptyState>{t("runners.none")}</EmptyState>
          )
        }
      </QueryView>
    </>
  );
}

const isActive = ({ status }: Runner): boolean => status === "running" || status === "draining";

function useColumns(): Columns<Runner> {
  const t = useT();
  const format = useFormat();
  return [
    [
      t("runners.name"),
      ({ name, host, pid }) => (
        <>
          {name} <span className="quiet">{`${host} · ${pid}`}</span>
        </>
      ),
    ],
    [
      t("runners.state"),
      // A runner whose lease has expired is lost, even while its row still says running.
      (one) => <StatusBadge status={isActive(one) && !one.alive ? "lost" : one.status} />,
    ],
    [t("runners.heartbeat"), ({ heartbeat_at }) => format.ago(heartbeat_at), "nowrap"],
    [
      t("runners.lease"),
      (one) => (isActive(one) ? format.clock(Date.parse(one.lease_until)) : "–"),
      "nowrap",
    ],
    [
      t("runners.tasks"),
      ({ running, concurrency }) => `${format.number(running)} / ${format.number(concurrency)}`,
      "nowrap",
    ],
    [
      t("runners.stuck"),
      ({ stuck }) => <span className={stuck ? "bad" : undefined}>{format.number(stuck)}</span>,
    ],
    [
      t("runners.done"),
      ({ completed, failed }) =>
        t("runners.counts", {
          completed: format.number(completed),
          failed: format.number(failed),
        }),
    ],
    [t("runners.pipelines"), ({ pipelines }) => pipelines.join(", ")],
    [t("runners.version"), ({ version }) => version],
    [t("common.actions"), (one) => <RunnerActions runner={one} />, "right"],
  ];
}

function RunnerActions({ runner: { id, name, alive, status } }: { runner: Runner }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  if (!mayAct || !alive || (status !== "running" && status !== "draining")) return null;
  const [label, change] =
    status === "running" ? [t("runners.drain"), drainRunner] : [t("runners.resume"), resumeRunner];
  return (
    <ActionButton
      size="compact-xs"
      variant="default"
      action={() => change(id)}
      invalidates={[runnersKey]}
      aria-label={`${label} ${name}`}
    >
      {label}
    </ActionButton>
  );
}
