// An OpenID provider (npm oidc-provider) with one client, whose access tokens are JWTs for the audience of a broker.
//   node provider.mjs PORT
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const resource = 'urn:barnabas';

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'alice',
    client_secret: 'her-client-secret',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
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
