import type { ReactNode } from "react";
import { Copyable } from "../../parts/Copy";
import { Empty } from "../../parts/States";

// Nothing there yet: how to begin, from a terminal.
export function Begin({ children, command }: { children: ReactNode; command: string }) {
  return <Empty action={<Copyable text={command} />}>{children}</Empty>;
}
