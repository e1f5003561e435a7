import { Button, Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { failureOne, snapshotText } from "../../api/engine";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Loaded } from "../../parts/States";

export function FailureDetail({ taskId }: { taskId: number }) {
  const t = useT();
  const format = useFormat();
  const one = useQuery(failureOne(taskId));
  return (
    <Loaded query={one}>
      {({ attempts }) => (
        <Stack mt="md" gap="sm">
          {attempts.map((attempt) => (
            <div key={attempt.id}>
              <Text size="sm" fw={600}>
                {t("failures.attempt", { attempt: attempt.attempt, time: format.time(attempt.at) })}
              </Text>
              <Text size="sm">
                <span className="code">{attempt.code}</span> {attempt.message}
              </Text>
              {attempt.stack && (
                <details>
                  <summary>{t("failures.stack")}</summary>
                  <Code block className="tall">
                    {attempt.stack}
                  </Code>
                </details>
              )}
              {attempt.details !== null && attempt.details !== undefined && (
                <details>
                  <summary>{t("failures.details")}</summary>
                  <Code block className="tall">
                    {JSON.stringify(attempt.details, null, 2)}
                  </Code>
                </details>
              )}
              {attempt.snapshots.map(({ name, bytes }) => (
                <Snapshot key={name} failureId={attempt.id} name={name} size={format.number(bytes)} />
              ))}
            </div>
          ))}
        </Stack>
      )}
    </Loaded>
  );
}

// What was scraped is hostile: it is shown as text and never becomes part of a document.
function Snapshot({ failureId, name, size }: { failureId: number; name: string; size: string }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  const text = useQuery({ ...snapshotText(failureId, name), enabled: open });
  return (
    <div>
      <Button size="compact-xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)} mt={4}>
        {t("failures.snapshot", { name, size })}
      </Button>
      {open && (
        <Loaded query={text}>
          {(found) => (
            <Code block className="tall" tabIndex={0}>
              {found}
            </Code>
          )}
        </Loaded>
      )}
    </div>
  );
}
