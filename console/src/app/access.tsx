import { createContext, useContext } from "react";
import { includes, type Role, type Session } from "../api/session";

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("nobody has signed in");
  return session;
}

export const useMay = (role: Role): boolean => includes(useSession().role, role);
