// What a mission was given, what it did step by step, and what it could not store.
import { Code, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { failedItems } from "../../api/missions";
import { taskOne, taskSteps } from "../../api/tasks";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
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
  return (
    <details className="below">
      <summary>{t("mission.steps")}</summary>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("mission.step")}</Table.Th>
            <Table.Th>{t("mission.attempt")}</Table.Th>
            <Table.Th>{t("mission.took")}</Table.Th>
            <Table.Th>{t("mission.when")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {data.map((step) => (
            <Table.Tr key={`${step.name}${step.item}`}>
              <Table.Td className="code">
                {step.item ? `${step.name} [${step.item}]` : step.name}
              </Table.Td>
              <Table.Td>{step.attempt}</Table.Td>
              <Table.Td>{step.duration_ms === null ? "" : format.took(step.duration_ms)}</Table.Td>
              <Table.Td className="nowrap">{format.time(step.finished_at)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
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
