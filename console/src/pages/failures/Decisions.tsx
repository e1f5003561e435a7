// Calls that may have taken effect and whose result is not known. Their tasks wait for a person.
import {
  Box,
  Button,
  CloseButton,
  Group,
  Modal,
  Paper,
  Stack,
  Text,
  Textarea,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import {
  type Decision,
  decisionsKey,
  decisionsQuery,
  MOST_DECISIONS,
  resolveByResult,
  resolveByRetry,
} from "../../api/decisions";
import { toProblem } from "../../api/problem";
import { useHasRole } from "../../app/session";
import { ConfirmButton, useAction } from "../../components/ActionButton";
import { Section } from "../../components/Section";
import { ErrorAlert } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { AFFECTED_QUERIES } from "./group";

const AFFECTED = [decisionsKey, ...AFFECTED_QUERIES];

type Decide = (decision: Decision, call: () => Promise<unknown>, done: string) => Promise<void>;

// Nothing while nothing waits. What was decided last stays visible until it is closed.
export function Decisions() {
  const t = useT();
  const { data, error, refetch } = useQuery(decisionsQuery);
  const [said, setSaid] = useState<string | null>(null);
  // The row and its dialog go with the decision, also with one that another person made.
  const decide: Decide = async ({ step, task_id: task }, call, done) => {
    try {
      await call();
      setSaid(done);
    } catch (failed) {
      if (toProblem(failed).status === 409) setSaid(t("decisions.tooLate", { step, task }));
      throw failed;
    }
  };
  return (
    <>
      {error && <ErrorAlert error={error} retry={() => void refetch()} />}
      {!!data?.length && (
        <Box mb="md">
          <Section title={t("decisions.title", { count: data.length })}>
            <Text size="sm" mb="xs">
              {t("decisions.help")}
            </Text>
            {data.map((decision) => (
              <Waiting
                key={`${decision.task_id}/${decision.step}/${decision.item}`}
                decision={decision}
                decide={decide}
              />
            ))}
            {data.length === MOST_DECISIONS && (
              <Text size="sm" c="dimmed">
                {t("decisions.more")}
              </Text>
            )}
          </Section>
        </Box>
      )}
      <div role="status" className="toast">
        {said && (
          <Paper withBorder shadow="md" p="sm">
            <Group wrap="nowrap">
              <Text size="sm">{said}</Text>
              <CloseButton aria-label={t("common.close")} onClick={() => setSaid(null)} />
            </Group>
          </Paper>
        )}
      </div>
    </>
  );
}

function Waiting({ decision, decide }: { decision: Decision; decide: Decide }) {
  const t = useT();
  const format = useFormat();
  const mayAct = useHasRole("operator");
  const { task_id: task, pipeline, item, attempt, called_at } = decision;
  const step = item === null ? decision.step : t("decisions.item", { step: decision.step, item });
  const title = `#${task} · ${step}`;
  return (
    <section className="member" aria-label={title}>
      <Group justify="space-between" gap="xs">
        <div>
          <Text size="sm" component="div">
            {pipeline === "missions" ? (
              <Link href={`/missions/${task}`}>{t("mission.title", { id: task })}</Link>
            ) : (
              <span className="code">#{task}</span>
            )}{" "}
            <span className="quiet">{pipeline}</span> · <span className="code">{step}</span>
          </Text>
          <Text size="sm">
            {t("decisions.called", { time: format.time(called_at), attempt })}{" "}
            <span className="quiet">({format.ago(called_at)})</span>
          </Text>
        </div>
        {mayAct && (
          <Group gap="xs">
            <ConfirmButton
              size="xs"
              variant="outline"
              color="red"
              label={`${t("decisions.retry")} ${title}`}
              question={t("decisions.retryQuestion", { step, task })}
              action={() =>
                decide(
                  decision,
                  () => resolveByRetry(decision),
                  t("decisions.retried", { step, task }),
                )
              }
              invalidates={AFFECTED}
            >
              {t("decisions.retry")}
            </ConfirmButton>
            <GiveResult
              title={title}
              question={t("decisions.giveQuestion", { step, task })}
              give={(json) =>
                decide(
                  decision,
                  () => resolveByResult(decision, json),
                  t("decisions.given", { step, task }),
                )
              }
            />
          </Group>
        )}
      </Group>
    </section>
  );
}

interface ResultFormProps {
  question: string;
  give: (json: string) => Promise<void>;
}

function GiveResult({ title, ...form }: ResultFormProps & { title: string }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button
        size="xs"
        variant="default"
        aria-label={`${t("decisions.give")} ${title}`}
        onClick={() => setOpen(true)}
      >
        {t("decisions.give")}
      </Button>
      <Modal
        opened={open}
        onClose={() => setOpen(false)}
        title={t("decisions.give")}
        closeButtonProps={{ "aria-label": t("common.back") }}
      >
        <ResultForm {...form} />
      </Modal>
    </>
  );
}

function ResultForm({ question, give }: ResultFormProps) {
  const t = useT();
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const giving = useAction(() => give(text), AFFECTED);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = jsonFault(text);
    setFault(found);
    if (found === null) giving.mutate(undefined);
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text size="sm">{question}</Text>
        <Textarea
          label={t("decisions.result")}
          description={t("decisions.resultHelp")}
          required
          rows={4}
          value={text}
          error={fault !== null && t("decisions.notJson", { fault })}
          onChange={(event) => {
            setText(event.currentTarget.value);
            setFault(null);
          }}
          classNames={{ input: "code" }}
          styles={{ input: { color: "inherit" } }}
          data-autofocus
        />
        {giving.error && <ErrorAlert error={giving.error} />}
        <Group justify="flex-end">
          <Button type="submit" disabled={!text.trim()} loading={giving.isPending}>
            {t("decisions.give")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

// What is wrong with a JSON text, in the browser's words, or null.
function jsonFault(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
