import { Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../../api/client";
import { failureQuery } from "../../api/engine";
import { Section } from "../../components/Section";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Snapshot } from "./Snapshot";

// The failed attempts of a task, or nothing when there are none.
export function FailedAttempts({ id }: { id: number }) {
  const t = useT();
  const { data } = useQuery(failureQuery(id));
  if (!data?.attempts.length) return null;
  return (
    <Section title={t("mission.attempts")}>
      <Attempts attempts={data.attempts} />
    </Section>
  );
}

export function Attempts({ attempts }: { attempts: Schemas["FailedAttempt"][] }) {
  const t = useT();
  const format = useFormat();
  return (
    <Stack gap="sm">
      {attempts.map((attempt) => (
        <div key={attempt.id}>
          <Text size="sm" fw={600}>
            {t("failures.attempt", { attempt: attempt.attempt, time: format.time(attempt.at) })}
          </Text>
          <Text size="sm">
            <span className="code">{attempt.code}</span> {attempt.message}
          </Text>
          {attempt.stack && <Collapsible title={t("failures.stack")} text={attempt.stack} />}
          {hasContent(attempt.details) && (
            <Collapsible
              title={t("failures.details")}
              text={JSON.stringify(attempt.details, null, 2)}
            />
          )}
          {attempt.snapshots.map(({ name, bytes, content_type }) => (
            <Snapshot
              key={name}
              failureId={attempt.id}
              name={name}
              size={format.number(bytes)}
              contentType={content_type}
            />
          ))}
        </div>
      ))}
    </Stack>
  );
}

const hasContent = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length > 0;

function Collapsible({ title, text }: { title: string; text: string }) {
  return (
    <details>
      <summary>{title}</summary>
      <Code block className="tall" tabIndex={0} role="region" aria-label={title}>
        {text}
      </Code>
    </details>
  );
}
