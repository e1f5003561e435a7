import { Button, Code, Group } from "@mantine/core";
import { useState } from "react";
import { useT } from "../i18n";

// A shell command with a button that copies it.
export function CopyableCommand({ text: command }: { text: string }) {
  const t = useT();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(command);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <Group gap="xs">
      <Code className="command">{command}</Code>
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => void copy()}
        aria-label={`${t("common.copy")}: ${command}`}
      >
        <span aria-live="polite">{t(copied ? "common.copied" : "common.copy")}</span>
      </Button>
    </Group>
  );
}
