// What a mission was given, what it did step by step, and what it could not store.
import { Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { failedItems } from "../../api/missions";
import { type Step, taskOne, taskSteps } from "../../api/tasks";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { type Columns, DataTable } from "../../parts/List";
import { Part } from "../../parts/Part";
import { Loaded } from "../../parts/States";

export function Payload({ id }: { id: number }) {
  const t = useT();
  const task = useQuery(taskOne(id));
  return (
    <Part title={t("mission.payload")}>
      <Text size="sm" c="dimmed" mb="xs">
        {t("mission.payloadHow")}
      </Text>
      <Loaded query={task}>
        {({ args, result }) => (
          <div className="two">
            <Json title={t("mission.args")} value={args} />
            {result !== null && <Json title={t("mission.result")} value={result} />}
          </div>
        )}
      </Loaded>
      <Steps id={id} />
    </Part>
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
  const { data } = useQuery(taskSteps(id));
  if (!data?.length) return null;
  const columns: Columns<Step> = [
    [t("mission.step"), ({ name, item }) => (item ? `${name} [${item}]` : name), "code"],
    [t("mission.attempt"), ({ attempt }) => attempt],
    [t("mission.took"), ({ duration_ms }) => duration_ms !== null && format.took(duration_ms)],
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
  const items = useQuery(failedItems(id));
  return (
    <Part title={t("mission.failedItems")}>
      <Loaded query={items}>
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
      </Loaded>
    </Part>
  );
}
