// Arguments, result and steps of a mission, and the items that were not stored.
import { Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { failedItemsQuery } from "../../api/missions";
import { type Step, taskQuery, taskStepsQuery } from "../../api/tasks";
import { type Columns, DataTable } from "../../components/DataTable";
import { Section } from "../../components/Section";
import { QueryView } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

export function Payload({ id }: { id: number }) {
  const t = useT();
  const task = useQuery(taskQuery(id));
  return (
    <Section title={t("mission.payload")}>
      <Text size="sm" c="dimmed" mb="xs">
        {t("mission.payloadHelp")}
      </Text>
      <QueryView query={task}>
        {({ args, result }) => (
          <div className="two">
            <Json title={t("mission.args")} value={args} />
            {result !== null && <Json title={t("mission.result")} value={result} />}
          </div>
        )}
      </QueryView>
      <Steps id={id} />
    </Section>
  );
}

function Json({ title, value }: { title: string; value: unknown }) {
  return (
    <div>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <Code block className="tall" tabIndex={0} role="region" aria-label={title}>
        {JSON.stringify(value, null, 2)}
      </Code>
    </div>
  );
}

function Steps({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery(taskStepsQuery(id));
  if (!data?.length) return null;
  const columns: Columns<Step> = [
    [
      t("mission.step"),
      ({ name, item }) => <span className="code">{item ? `${name} [${item}]` : name}</span>,
    ],
    [t("mission.attempt"), ({ attempt }) => attempt],
    [
      t("mission.took"),
      ({ duration_ms }) => duration_ms !== null && format.milliseconds(duration_ms),
    ],
    [t("mission.when"), ({ finished_at }) => format.time(finished_at), "nowrap"],
  ];
  return (
    <details className="below">
      <summary>{t("mission.steps")}</summary>
      <DataTable
        label={t("mission.steps")}
        columns={columns}
        rows={data}
        keyOf={({ name, item }) => `${name}${item}`}
        minWidth={480}
      />
    </details>
  );
}

export function FailedItems({ id }: { id: number }) {
  const t = useT();
  const items = useQuery(failedItemsQuery(id));
  return (
    <Section title={t("mission.failedItems")}>
      <QueryView query={items}>
        {(found) => (
          <Stack gap="xs">
            {found.map(({ index, error, data }) => (
              <div key={index}>
                <Text size="sm">
                  <span className="code">#{index}</span> {error}
                </Text>
                <Text size="xs" c="dimmed" className="details">
                  {JSON.stringify(data)}
                </Text>
              </div>
            ))}
          </Stack>
        )}
      </QueryView>
    </Section>
  );
}
