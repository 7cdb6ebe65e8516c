// An OpenID provider (npm oidc-provider), whose access tokens are JWTs for the audience of a broker.
//   node provider.mjs PORT [REDIRECT]
// The client `alice` gets tokens for herself. At the client `console`, which is there with REDIRECT, people log in: with
// any name and any password, and all of them are in the group `ops`.
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const resource = 'urn:barnabas';
const redirect = process.argv[3];
const people = redirect ? [{
  client_id: 'console',
  client_secret: 'the+console/secret',
  grant_types: ['authorization_code'],
  redirect_uris: [redirect],
  response_types: ['code'],
  token_endpoint_auth_method: 'client_secret_basic',
}] : [];

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'alice',
    client_secret: 'her-client-secret',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  }, ...people],
  claims: { openid: ['sub'], profile: ['groups'] },
  conformIdTokenClaims: false,
  findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ['ops'] }) }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: Boolean(redirect) },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'broker',
        audience: resource,
        accessTokenTTL: 300,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },

});

provider.listen(port, '127.0.0.1', () => console.log(`listening on ${issuer}`));
