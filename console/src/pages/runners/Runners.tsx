import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { drainRunner, type Runner, resumeRunner, runners, runnersKey } from "../../api/engine";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton } from "../../parts/act";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";

const TITLES = [
  "runners.name",
  "runners.state",
  "runners.heartbeat",
  "runners.lease",
  "runners.tasks",
  "runners.stuck",
  "runners.done",
  "runners.pipelines",
  "runners.version",
] as const;

export default function Runners() {
  const t = useT();
  const query = useQuery(runners);
  return (
    <>
      <PageHead title={t("nav.runners")} />
      <Loaded query={query}>
        {(found) =>
          found.length ? (
            <Table.ScrollContainer
              minWidth={900}
              type="native"
              tabIndex={0}
              role="region"
              aria-label={t("nav.runners")}
            >
              <Table highlightOnHover>
                <Table.Thead>
                  <Table.Tr>
                    {TITLES.map((title) => (
                      <Table.Th key={title}>{t(title)}</Table.Th>
                    ))}
                    <Table.Th>
                      <span className="hidden-text">{t("act.actions")}</span>
                    </Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {found.map((runner) => (
                    <Row key={runner.id} runner={runner} />
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          ) : (
            <Empty>{t("runners.none")}</Empty>
          )
        }
      </Loaded>
    </>
  );
}

function Row({ runner }: { runner: Runner }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useMay("operator");
  const silent = !runner.alive && (runner.status === "running" || runner.status === "draining");
  return (
    <Table.Tr>
      <Table.Td>
        {runner.name} <span className="quiet">{`${runner.host} · ${runner.pid}`}</span>
      </Table.Td>
      <Table.Td>
        {/* A runner whose lease has run out is not shown as running, whatever its row says. */}
        <Status of={silent ? "lost" : runner.status} />
      </Table.Td>
      <Table.Td className="nowrap">{format.ago(runner.heartbeat_at)}</Table.Td>
      <Table.Td className="nowrap">
        {runner.status === "running" || runner.status === "draining"
          ? format.clock(Date.parse(runner.lease_until))
          : "–"}
      </Table.Td>
      <Table.Td>{`${format.number(runner.running)} / ${format.number(runner.concurrency)}`}</Table.Td>
      <Table.Td className={runner.stuck ? "bad" : ""}>{format.number(runner.stuck)}</Table.Td>
      <Table.Td>
        {t("runners.counts", {
          completed: format.number(runner.completed),
          failed: format.number(runner.failed),
        })}
      </Table.Td>
      <Table.Td>{runner.pipelines.join(", ")}</Table.Td>
      <Table.Td>{runner.version}</Table.Td>
      <Table.Td>
        {mayAct && runner.alive && runner.status === "running" && (
          <ActButton
            size="compact-xs"
            variant="default"
            act={() => drainRunner(runner.id)}
            stale={[runnersKey]}
            aria-label={`${t("runners.drain")} ${runner.name}`}
          >
            {t("runners.drain")}
          </ActButton>
        )}
        {mayAct && runner.alive && runner.status === "draining" && (
          <ActButton
            size="compact-xs"
            variant="default"
            act={() => resumeRunner(runner.id)}
            stale={[runnersKey]}
            aria-label={`${t("runners.resume")} ${runner.name}`}
          >
            {t("runners.resume")}
          </ActButton>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
