import { queryOptions } from "@tanstack/react-query";
import { api, keepCsrfToken, type Schemas } from "./client";
import { Problem, unwrap } from "./problem";

export type Session = Schemas["Session"];
export type Role = Session["role"];

const ORDER: Role[] = ["viewer", "operator", "admin"];

export const roleIncludes = (mine: Role, wanted: Role): boolean =>
  ORDER.indexOf(mine) >= ORDER.indexOf(wanted);

const storeCsrfToken = (session: Session): Session => {
  keepCsrfToken(session.csrf_token);
  return session;
};

// null when signed out.
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      return storeCsrfToken(await unwrap(api.GET("/api/session")));
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const signIn = async (credentials: Schemas["Credentials"]): Promise<Session> =>
  storeCsrfToken(await unwrap(api.POST("/api/session", { body: credentials })));

// The address that ends the session at the provider, too, if that is where it began.
export const signOut = async (): Promise<string | undefined> => {
  const answer = await unwrap<Schemas["SignedOut"] | undefined>(api.DELETE("/api/session"));
  return answer?.url;
};

export type SignInProvider = Schemas["SignInProvider"];

export const providersQuery = queryOptions({
  queryKey: ["providers"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/session/providers", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
});

export type OpenSession = Schemas["OpenSession"];

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/session/all", { signal })),
});

export const endSession = (id: string): Promise<unknown> =>
  unwrap<unknown>(
    api.DELETE("/api/session/all/{member_id}", { params: { path: { member_id: id } } }),
  );
