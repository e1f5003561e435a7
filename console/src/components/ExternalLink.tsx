import type { ReactNode } from "react";
import { useT } from "../i18n";
import { webUrl } from "./webUrl";

// A link that opens in a new tab, or plain text when the URL is not http or https.
export function ExternalLink({
  href,
  children,
}: {
  href: string | null | undefined;
  children: ReactNode;
}) {
  const t = useT();
  const address = webUrl(href);
  if (!address) return <>{children}</>;
  return (
    <a className="out" href={address} target="_blank" rel="noopener noreferrer">
      {children}
      <span aria-hidden="true"> ↗</span>
      <span className="hidden-text"> {t("common.newTab")}</span>
    </a>
  );
}
